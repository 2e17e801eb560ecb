"""Which repositories may a build be fetched from, and how large may they be?

The settings, as the values that the git backend takes. What is fetched is kept and
unpacked as an archive afterwards, so an archive's bounds hold for it, too.
"""

from __future__ import annotations

from .. import conf
from ..backends.gitaddress import GitAccess, GitLimits


def access() -> GitAccess:
    """Return where repositories may be fetched from."""
    settings = conf.get()
    return GitAccess(protocols=settings.git_protocols, hosts=settings.git_hosts)


def limits() -> GitLimits:
    """Return how much one fetch may cost."""
    settings = conf.get()
    return GitLimits(
        max_bytes=settings.git_max_bytes,
        max_entries=settings.archive_max_entries,
        max_bytes_out=settings.archive_max_unpacked_bytes,
        timeout_seconds=settings.git_timeout_seconds,
    )
