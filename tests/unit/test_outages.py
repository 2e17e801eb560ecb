"""Is an outage of the database told once, and are its retries spread?"""

from __future__ import annotations

import logging

import pytest

from buildqueue.worker.outages import FIRST_PAUSE, LONGEST_PAUSE, Outages, jittered


@pytest.fixture
def told() -> list[str | None]:
    return []


def test_a_connection_that_is_made_anew_is_not_told(told: list[str | None]) -> None:
    outages = Outages(told.append)
    for _ in range(3):
        outages.failed("listener", "cut")
        outages.well("listener")

    assert told == []


def test_an_outage_is_told_once_and_ends_with_the_last_trouble(
    told: list[str | None],
) -> None:
    outages = Outages(told.append)
    for _ in range(5):
        outages.failed("listener", "refused\nIs the server running?")
        outages.failed("log", "refused")
    outages.well("listener")
    assert told == ["listener: refused"]

    outages.failed("log", "refused")
    outages.well("log")
    outages.well("log")
    assert told == ["listener: refused", None]


def test_the_next_outage_is_told_again(told: list[str | None]) -> None:
    outages = Outages(told.append)
    for why in ("first", "second"):
        for _ in range(2):
            outages.failed("log", why)
        outages.well("log")

    assert told == ["log: first", None, "log: second", None]


def test_the_pause_of_a_part_grows_to_its_limit_and_starts_anew() -> None:
    outages = Outages()
    pauses = [outages.failed("log", "refused") for _ in range(12)]
    assert all(
        min(FIRST_PAUSE * 2**n, LONGEST_PAUSE) / 2
        <= pause
        <= min(FIRST_PAUSE * 2**n, LONGEST_PAUSE)
        for n, pause in enumerate(pauses)
    )
    assert outages.failed("listener", "refused") <= FIRST_PAUSE
    outages.well("log")
    assert outages.failed("log", "refused") <= FIRST_PAUSE


def test_a_pause_is_spread_over_its_second_half() -> None:
    assert jittered(4.0, rand=lambda: 0.0) == 2.0
    assert jittered(4.0, rand=lambda: 1.0) == 4.0


def test_begin_and_end_are_printed_as_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outages = Outages()
    with caplog.at_level(logging.WARNING, "buildqueue.worker"):
        for _ in range(3):
            outages.failed("log", OSError())
        outages.well("log")

    begun, over = [record.getMessage() for record in caplog.records]
    assert begun == "no use of the database, trying again: log: OSError"
    assert over.startswith("the database is back after ")
