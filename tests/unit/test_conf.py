"""Are settings read as they are meant, and is a fault told instead of obeyed?"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from buildqueue import checks, conf


@pytest.mark.parametrize("given", [None, {}])
def test_without_settings_every_default_holds(given: dict[str, Any] | None) -> None:
    with override_settings(BUILDQUEUE=given):
        assert conf.get() == conf.Settings()


def test_a_setting_is_named_in_capitals_and_changes_its_field() -> None:
    with override_settings(BUILDQUEUE={"LEASE_SECONDS": 90, "SLOTS": 4}):
        settings = conf.get()

    assert (settings.lease_seconds, settings.slots) == (90, 4)
    assert settings.faults == ()


def test_a_change_of_the_settings_is_seen() -> None:
    with override_settings(BUILDQUEUE={"SLOTS": 3}):
        assert conf.get().slots == 3
    with override_settings(BUILDQUEUE={"SLOTS": 5}):
        assert conf.get().slots == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"SLOT": 3}, "no setting 'SLOT'; did you mean 'SLOTS'?"),
        ({"slots": 3}, "no setting 'slots'; did you mean 'SLOTS'?"),
        ({"XYZZY": 3}, "no setting 'XYZZY'"),
        ({1: 2}, "no setting 1"),
        ({"SLOTS": 0}, "'SLOTS'"),
        ({"SLOTS": 1.5}, "'SLOTS'"),
        ({"SLOTS": "many"}, "'SLOTS'"),
        ({"LEASE_SECONDS": -1}, "'LEASE_SECONDS'"),
        ({"LEASE_SECONDS": None}, "'LEASE_SECONDS'"),
        ({"POLL_SECONDS": float("inf")}, "'POLL_SECONDS'"),
        ({"DRAIN_SECONDS": -1}, "'DRAIN_SECONDS'"),
        ({"BACKOFF_JITTER": 1.5}, "'BACKOFF_JITTER'"),
        ({"LOCAL_PORTS": 8000}, "'LOCAL_PORTS'"),
        ({"LOCAL_PORTS": (80, 90)}, "1024 to 65535"),
        ({"LOCAL_PORTS": (9000, 8000)}, "1024 to 65535"),
        ({"DUTIES": "one.path"}, "'DUTIES'"),
        ({"LEASE_SECONDS": 30, "RENEWAL_SECONDS": 20}, "at least twice"),
        (
            {"BACKOFF_BASE_SECONDS": 9, "BACKOFF_MAX_SECONDS": 3},
            "must not be below BACKOFF_BASE_SECONDS",
        ),
        (["SLOTS"], "must be a dict"),
    ],
)
def test_a_fault_is_told_by_the_system_check(given: Any, said: str) -> None:
    with override_settings(BUILDQUEUE=given):
        [fault] = checks.check_settings(None)

    assert fault.id == "buildqueue.E001"
    assert said in fault.msg


def test_a_faulty_setting_counts_as_not_given() -> None:
    with override_settings(BUILDQUEUE={"SLOTS": "many", "MAX_ATTEMPTS": 9}):
        settings = conf.get()

    assert settings.slots == conf.Settings().slots
    assert settings.max_attempts == 9


def test_every_default_is_a_value_that_would_be_taken() -> None:
    defaults = {
        f.name.upper(): f.default for f in fields(conf.Settings) if f.name != "faults"
    }

    with override_settings(BUILDQUEUE=defaults):
        assert conf.get() == conf.Settings()


def test_missing_time_zones_are_told() -> None:
    with override_settings(USE_TZ=False, BUILDQUEUE={}):
        [fault] = checks.check_settings(None)

    assert fault.id == "buildqueue.E003"


def test_another_database_than_postgresql_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Elsewhere:
        vendor, display_name = "sqlite", "SQLite"

    monkeypatch.setattr(checks, "connections", {"default": Elsewhere()})

    [fault] = checks.check_database(None)

    assert fault.id == "buildqueue.E002"
    assert "SQLite" in fault.msg


def test_the_suites_own_host_has_no_fault() -> None:
    assert checks.check_settings(None) == []
    assert checks.check_database(None) == []


def test_what_is_kept_outside_the_database_is_kept_below_the_project(
    tmp_path: Path,
) -> None:
    with override_settings(BUILDQUEUE={}, BASE_DIR=tmp_path):
        assert conf.get().data_path() == tmp_path / "var"
    with override_settings(BUILDQUEUE={"DATA_DIR": str(tmp_path / "x")}):
        assert conf.get().data_path() == tmp_path / "x"
    with override_settings(BUILDQUEUE={}, BASE_DIR=None):
        assert conf.get().data_path().is_relative_to(Path.home())
