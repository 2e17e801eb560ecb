"""Do the settings reach the fetcher of repositories?"""

from __future__ import annotations

from typing import Any

import pytest

from buildqueue import conf
from buildqueue.backends.gitaddress import GitAccess, GitLimits
from buildqueue.builds.gitaccess import access, limits


def test_without_settings_three_hosts_are_reached_by_https(settings: Any) -> None:
    settings.BUILDQUEUE = {}

    assert access() == GitAccess()
    assert limits() == GitLimits()


def test_what_the_operator_says_holds(settings: Any) -> None:
    settings.BUILDQUEUE = {
        "GIT_PROTOCOLS": ["http"],
        "GIT_HOSTS": ["git.example:8080"],
        "GIT_TIMEOUT_SECONDS": 5,
        "GIT_MAX_BYTES": 6,
        "ARCHIVE_MAX_ENTRIES": 7,
        "ARCHIVE_MAX_UNPACKED_BYTES": 8,
    }

    assert access() == GitAccess(protocols=("http",), hosts=("git.example:8080",))
    assert limits() == GitLimits(
        timeout_seconds=5.0, max_bytes=6, max_entries=7, max_bytes_out=8
    )


@pytest.mark.parametrize("protocol", ["ssh", "ext", "file"])
def test_a_protocol_that_is_not_supported_is_told(settings: Any, protocol: str) -> None:
    settings.BUILDQUEUE = {"GIT_PROTOCOLS": [protocol]}

    assert "GIT_PROTOCOLS" in conf.get().faults[0]
