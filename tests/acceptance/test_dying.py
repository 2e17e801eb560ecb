"""Does a job that dies, in any way, cost more than its own attempt?"""

from __future__ import annotations

import os
import signal

import pytest
from django.db import connection

from buildqueue.models import BuildJob
from buildqueue.states import JobStatus, RunOutcome
from tests.support.jobs import enqueue, fresh, runs, text, wait_for
from tests.support.processes import Workers

CRASHES = {
    # behavior: outcome, error code, exit code, signal
    "exit": ("crashed", "exited", 7, None),
    "segfault": ("crashed", "killed_by_signal", None, signal.SIGSEGV),
    "kill": ("crashed", "killed_by_signal", None, signal.SIGKILL),
    "raise": ("failed", "exception", None, None),
    "raise_nul": ("failed", "exception", None, None),
    "recursion": ("failed", "exception", None, None),
    "memory": ("failed", "out_of_memory", None, None),
    "system_exit": ("failed", "exited", None, None),
    "no_outcome": ("failed", "no_outcome", None, None),
    # Nobody has taken the job: it must not stay as it is while its slot goes on.
    "lost_lease": ("failed", "exception", None, None),
    "cancelled": ("failed", "exception", None, None),
    "keyboard": ("failed", "exception", None, None),
    "generator_exit": ("failed", "exception", None, None),
    "mute": ("failed", "exception", None, None),
    "tampered": ("failed", "outcome_refused", None, None),
}
FINAL = {"no_outcome", "tampered"}  # not tried again


def test_each_way_to_die_is_told_and_the_next_job_goes_on(workers: Workers) -> None:
    worker = workers.start("--slots", "1")
    for behavior, expected in CRASHES.items():
        job = enqueue(behavior, label=behavior, until_attempt=1)
        after = enqueue("ok")
        done = wait_for(after)
        ended = wait_for(job)
        first = runs(job)[0]
        told = (first.outcome, first.error_code, first.exit_code, first.exit_signal)
        assert told == expected, behavior
        assert done.status == JobStatus.DONE
        if behavior not in FINAL:
            assert ended.status == JobStatus.DONE, behavior
            assert [run.outcome for run in runs(job)][1:] == [RunOutcome.SUCCEEDED]
    assert worker.popen.poll() is None
    assert worker.row.pid == worker.pid


def test_a_slot_that_talks_nonsense_is_ended_and_the_worker_goes_on(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "1")
    job = enqueue("garble", until_attempt=1)
    after = enqueue("ok")
    assert wait_for(after).status == wait_for(job).status == JobStatus.DONE
    first, second = runs(job)
    assert (first.outcome, first.error_code) == (RunOutcome.CRASHED, "garbled")
    assert second.outcome == RunOutcome.SUCCEEDED
    assert fresh(job).crashes == 1
    assert worker.popen.poll() is None


def test_a_stored_limit_that_no_clock_can_keep_ends_no_worker(
    workers: Workers,
) -> None:
    job = enqueue("ok")
    BuildJob.objects.filter(pk=job.pk).update(limits={"time_seconds": 10**400})
    worker = workers.start("--slots", "1")
    assert wait_for(job).status == JobStatus.DONE
    assert worker.popen.poll() is None


def test_a_job_killed_from_outside_in_the_middle_of_c_code_runs_again(
    workers: Workers,
) -> None:
    worker = workers.start()
    job = enqueue("hang_in_c", until_attempt=1)
    wait_for(job, JobStatus.IN_PROGRESS)
    pid = runs(job)[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_for(job).status == JobStatus.DONE
    first, second = runs(job)
    assert (first.outcome, first.exit_signal) == (RunOutcome.CRASHED, signal.SIGKILL)
    assert first.peak_memory_bytes
    assert second.slot != first.slot
    assert worker.popen.poll() is None


@pytest.mark.parametrize("behavior", ["kill", "raise"])
def test_a_poison_job_fails_after_its_three_attempts(
    workers: Workers, behavior: str
) -> None:
    workers.start()
    job = wait_for(enqueue(behavior))
    assert job.status == JobStatus.FAILED
    assert job.error_code == "max_attempts_exhausted"
    assert "max attempts exceeded" in (job.error_msg or "")
    assert len(runs(job)) == job.attempt == 3
    assert job.failures + job.crashes == 3


def test_a_row_that_no_handler_can_take_fails_with_the_reason(
    workers: Workers,
) -> None:
    workers.start("--slots", "1")
    with connection.cursor() as cursor:
        for payload in (
            '{"kind": "unheard_of"}',
            "{}",
            '{"kind": "probe", "behavior": "no such"}',
            '{"kind": "probe", "extra": 1}',
            "[]",
            # Deeper than a parser goes: the claim that reads it must not fail.
            '{"kind": "probe", "label": ' + "[" * 3000 + "]" * 3000 + "}",
        ):
            statement = "INSERT INTO buildqueue_buildjob (payload) VALUES (%s)"
            cursor.execute(statement, [payload])
        cursor.execute("NOTIFY buildqueue, 'q:default'")
    last = enqueue("ok")
    assert wait_for(last).status == JobStatus.DONE
    bad = BuildJob.objects.exclude(pk=last.pk).order_by("seq")
    codes = [(job.status, job.error_code) for job in bad]
    unknown, invalid = ("failed", "unknown_kind"), ("failed", "invalid_payload")
    assert codes == [unknown, unknown, invalid, invalid, unknown, invalid]
    assert all(job.error_msg for job in bad)


def test_the_last_words_before_a_kill_are_kept(workers: Workers) -> None:
    workers.start()
    job = wait_for(enqueue("print_and_die", until_attempt=2))
    assert job.status == JobStatus.DONE
    for attempt in (1, 2):
        assert text(job, attempt, stream="stdout") == "the last word\n"
        assert "SIGKILL" in text(job, attempt, stream="system")
    assert text(job, 3) == ""


@pytest.mark.parametrize("behavior", ["leave_transaction", "close_connection"])
def test_what_a_handler_does_to_its_connection_does_not_touch_the_report(
    workers: Workers, behavior: str
) -> None:
    workers.start("--slots", "1")
    job = wait_for(enqueue(behavior, until_attempt=1))
    after = wait_for(enqueue("ok"))
    assert (job.status, after.status) == (JobStatus.DONE, JobStatus.DONE)
