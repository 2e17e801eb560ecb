"""Does a worker's output say what became of a run, in one line that nobody forges?"""

from __future__ import annotations

import logging

import pytest

from buildqueue.models import BuildJob
from buildqueue.queue.outcomes import Cause, Done, Fail, Retry, Snooze
from buildqueue.states import JobStatus, RunOutcome
from buildqueue.worker import judging, telling

JOB = BuildJob(max_attempts=3, failures=0, crashes=0)


def told(job: BuildJob, change: object) -> tuple[str, int]:
    ending = telling.ending_of(job, change)  # type: ignore[arg-type]
    return ending.how, ending.level


def test_a_retry_is_told_with_its_delay_and_reason() -> None:
    change = judging.change_of(JOB, Retry(reason="no route", delay_seconds=2.5))
    expected = ("tried again in 2.5 s: no route", logging.WARNING)
    assert told(BuildJob(status=change.target), change) == expected


def test_a_snooze_and_a_hand_back_are_no_warnings() -> None:
    snoozed = judging.change_of(JOB, Snooze(delay_seconds=1, reason="busy"))
    back = judging.hand_back_change({"outcome": RunOutcome.RELEASED})
    assert told(BuildJob(status=snoozed.target), snoozed) == ("snoozed", logging.INFO)
    assert told(BuildJob(status=back.target), back) == ("handed back", logging.INFO)


def test_done_whose_result_is_missing_is_told_as_failed() -> None:
    change = judging.change_of(JOB, Done())
    failed = BuildJob(status=JobStatus.FAILED, error_msg="it left no build")
    assert told(failed, change) == ("failed: it left no build", logging.WARNING)


@pytest.mark.parametrize(
    "written", ["a\n2030-01-01 INFO forged", "a\x1b[2Jb", "x" * 900]
)
def test_a_reason_is_one_short_printable_line(written: str) -> None:
    change = judging.change_of(JOB, Fail(reason=written))
    failed = BuildJob(status=JobStatus.FAILED, error_msg=written)
    how, _ = told(failed, change)
    assert how.isprintable()
    assert len(how) <= len("failed: ") + telling.LONGEST_REASON


def test_a_death_is_told_with_its_cause() -> None:
    cause = Cause(outcome=RunOutcome.TIMED_OUT, code="timed_out", message="too long")
    assert telling.how_it_died(cause) == "timed out: too long"
