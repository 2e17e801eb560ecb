"""What does a supervisor do to a child in time, and what does it say of its end?"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from buildqueue.queue.outcomes import Cause
from buildqueue.queue.recovery import REVOKED
from buildqueue.states import RunOutcome
from buildqueue.worker.channel import Channel, Message
from buildqueue.worker.child import (
    HANDED_BACK,
    Child,
    Ends,
    SlotState,
    cause_of,
)
from buildqueue.worker.crew import Crew

FIRST: dict[str, Any] = {
    "kind": "probe",
    "attempt": 1,
    "time_limit": None,
    "soft_limit": None,
    "watched": None,
    "claimed_at": 0.0,
    "hindrance": "",
}


@pytest.fixture
def pair() -> Iterator[tuple[Child, Channel, Channel]]:
    """Make a child, and the other ends of its two channels: the slot's, the guardian's."""
    ends = Ends.make()
    watch, control, out, err = ends.given
    slot, guardian = Channel.of_fd(control), Channel.of_fd(watch)
    child = Child(role="slot", number=1, control=ends.control, watch=ends.watch)
    yield child, slot, guardian
    for channel in (slot, guardian, child.control, child.watch):
        channel.close()
    for fd in (out, err, ends.out, ends.err):
        os.close(fd)


def begin(child: Child, **told: Any) -> None:
    names = {"started": str(uuid4()), "job": str(uuid4())}
    child.begin_run(FIRST | names | told)


def test_the_soft_limit_is_told_once_and_the_hard_one_ends_the_tree(
    pair: tuple[Child, Channel, Channel],
) -> None:
    child, _, guardian = pair
    begin(child, soft_limit=10.0, time_limit=20.0)
    soft, hard = child.moments()
    child.keep_time(soft - 1, 5.0)
    child.keep_time(soft, 5.0)
    child.keep_time(soft + 1, 5.0)
    assert guardian.next() == {"soft": True}
    child.keep_time(hard, 5.0)
    assert guardian.next() == {"end": 5.0}
    assert child.wanted_end is not None
    told = (child.wanted_end.outcome, child.wanted_end.code)
    assert told == (RunOutcome.TIMED_OUT, "timed_out")
    assert child.moments() == []


def test_a_run_that_has_ended_reaches_no_limit(
    pair: tuple[Child, Channel, Channel],
) -> None:
    child, _, _ = pair
    begin(child, soft_limit=10.0, time_limit=20.0)
    child.end_run()
    assert child.moments() == []
    child.keep_time(time.monotonic() + 100, 5.0)
    assert child.wanted_end is None


def test_the_first_reason_stays_and_the_shortest_grace_counts(
    pair: tuple[Child, Channel, Channel],
) -> None:
    child, _, guardian = pair
    begin(child)
    for cause, grace in ((HANDED_BACK, 5.0), (REVOKED, 0.5), (REVOKED, 0.5)):
        child.end_tree(cause, grace)
    assert (child.state, child.wanted_end) == (SlotState.ENDING, HANDED_BACK)
    child.watch.close()
    assert guardian.rest() == [{"end": 5.0}, {"end": 0.5}]


def test_a_run_goes_only_when_its_slot_is_there_to_hear_it(
    pair: tuple[Child, Channel, Channel],
) -> None:
    child, slot, guardian = pair
    watched: Message = {"limits": {}, "group": {}}
    begin(child, watched=watched)
    child.go(until=7.0)
    assert child.run is not None
    assert child.going == child.run.lease
    assert slot.next() == {"go": True}
    assert guardian.next() == {"until": 7.0, "watched": watched}
    child.end_run()
    slot.close()
    begin(child)
    child.go(until=8.0)
    assert child.going is None


REPORTS: dict[str, tuple[Message, tuple[str, str, int | None, int | None]]] = {
    "exit": ({"ended": 7 << 8}, ("crashed", "exited", 7, None)),
    "signal": ({"ended": 11}, ("crashed", "killed_by_signal", None, 11)),
    "lease": ({"ended": 9, "overran": True}, ("lost", "lease_over", None, 9)),
    "nothing": ({}, ("crashed", "guardian_died", None, None)),
} | {
    code: ({"ended": 9, "crossed": code}, ("crashed", code, None, 9))
    for code in ("out_of_memory", "cpu_limit", "process_limit")
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_told_as_one_cause(name: str) -> None:
    report, expected = REPORTS[name]
    cause = cause_of(report, None)
    told = (cause.outcome, cause.code, cause.exit_code, cause.exit_signal)
    assert told == expected
    assert cause.message


def test_what_the_supervisor_wanted_goes_before_what_was_crossed() -> None:
    wanted = Cause(outcome=RunOutcome.TIMED_OUT, code="timed_out", message="late")
    cause = cause_of({"ended": int(signal.SIGKILL), "crossed": "cpu_limit"}, wanted)
    assert (cause.outcome, cause.code) == (RunOutcome.TIMED_OUT, "timed_out")


WHOLE = FIRST | {"started": str(uuid4()), "job": str(uuid4())}
NONSENSE: dict[str, bytes] = {
    "no JSON": b"no JSON",
    "no object": b"5",
    "no such time": json.dumps(WHOLE | {"time_limit": 10**400}).encode(),
    "no time": json.dumps(WHOLE | {"soft_limit": "soon"}).encode(),
    "too little": b"{}",
    "no id": json.dumps(WHOLE | {"started": "first"}).encode(),
    "no text": b"\xff\xfe",
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("told", NONSENSE.values(), ids=NONSENSE.keys())
def test_who_makes_no_sense_is_ended_and_nobody_else(
    pair: tuple[Child, Channel, Channel], told: bytes
) -> None:
    child, slot, guardian = pair
    with socket.socket(fileno=os.dup(slot.fileno())) as raw:
        raw.sendall(told + b"\n")
    slot.close()
    child.hear(child.control.rest, Child.begin_run)
    assert child.state is SlotState.ENDING
    assert child.wanted_end is not None
    assert child.wanted_end.code == "garbled"
    child.watch.close()
    assert guardian.rest() == [{"end": 0}]


def test_a_run_that_is_told_of_in_nonsense_is_charged_with_the_end(
    pair: tuple[Child, Channel, Channel],
) -> None:
    child, slot, _ = pair
    lease = uuid4()
    told = FIRST | {"job": str(uuid4()), "time_limit": 10**400}
    slot.send(started=str(lease), **told)
    child.hear(child.control.receive, Child.begin_run)
    assert child.going == lease


def test_that_no_control_group_can_be_had_is_said_once(
    pair: tuple[Child, Channel, Channel], caplog: pytest.LogCaptureFixture
) -> None:
    child, _, _ = pair
    missing: Any = None
    crew = Crew(missing, selectors.DefaultSelector(), missing, {})
    names = {"started": str(uuid4()), "job": str(uuid4())}
    told = FIRST | names | {"hindrance": "memory: read-only"}
    with caplog.at_level(logging.WARNING, logger="buildqueue.worker"):
        crew.begin_run(child, told)
        crew.begin_run(child, told)
    assert [r.getMessage() for r in caplog.records] == [
        "limits are measured, not set: no control group (memory: read-only)"
    ]
