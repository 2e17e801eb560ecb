"""Is a run held to its limits, is the one told that it crossed, and is nothing left?"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db import connection

from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import verbs
from buildqueue.queue.limits import Limits
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus, RunOutcome
from tests.host.jobs import Behavior
from tests.host.models import Effect
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.waiting import wait_until

MIB = 1024 * 1024
PERSON = Actor(label="person", id="7")
FOR_EVER = 300.0  # a grace that no test outlives


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way in which a run ends, and what its row says then."""

    behavior: Behavior
    told: tuple[str, str, int | None, int | None]  # outcome, code, exit code, signal
    limits: Limits | None = None
    lines: int = 1
    words: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


CASES = {
    "time": Case(
        behavior="hang",
        limits=Limits(time_seconds=0.5),
        told=("timed_out", "timed_out", None, signal.SIGTERM),
        words="limit of 0.5 s",
    ),
    "soft time": Case(
        behavior="hang",
        limits=Limits(soft_time_seconds=0.5),
        told=("failed", "soft_timed_out", None, None),
        words="soft limit of 0.5 s",
    ),
    "memory": Case(
        behavior="eat_memory",
        lines=120,
        limits=Limits(memory_bytes=256 * MIB),
        told=("crashed", "out_of_memory", None, signal.SIGKILL),
        words="memory",
    ),
    "processor": Case(
        behavior="burn_cpu",
        limits=Limits(cpu_seconds=0.5),
        told=("crashed", "cpu_limit", None, signal.SIGKILL),
        words="processor time",
    ),
    "processor of a child": Case(
        behavior="pipeline",
        limits=Limits(cpu_seconds=0.5),
        told=("crashed", "cpu_limit", None, signal.SIGKILL),
        words="processor time",
    ),
    "processes": Case(
        behavior="fork_many",
        lines=12,
        limits=Limits(processes=5),
        told=("crashed", "process_limit", None, signal.SIGKILL),
        words="processes",
    ),
    "file": Case(
        behavior="write_big",
        lines=8,
        limits=Limits(file_bytes=MIB),
        told=("failed", "file_limit", None, None),
        words="larger file",
    ),
    "signal": Case(
        behavior="kill",
        limits=Limits(memory_bytes=512 * MIB, processes=50, cpu_seconds=60),
        told=("crashed", "killed_by_signal", None, signal.SIGKILL),
        words="SIGKILL",
    ),
    "exit": Case(behavior="exit", told=("crashed", "exited", 7, None), words="code 7"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_cause_is_told_apart_and_the_next_job_starts(
    workers: Workers, tmp_path: Path, case: Case
) -> None:
    worker = workers.start("--slots", "1")
    job = enqueue(
        case.behavior,
        until_attempt=1,
        lines=case.lines,
        path=str(tmp_path / "big"),
        options={"limits": case.limits},
    )
    after = enqueue("ok")
    assert wait_for(after).status == JobStatus.DONE
    assert wait_for(job).status == JobStatus.DONE
    first, second = runs(job)
    told = (first.outcome, first.error_code, first.exit_code, first.exit_signal)
    assert told == case.told, worker.output()
    assert case.words in (first.error_msg or "")
    assert second.outcome == RunOutcome.SUCCEEDED
    if first.outcome == RunOutcome.CRASHED:
        assert first.peak_memory_bytes
        assert first.cpu_seconds is not None
    assert worker.popen.poll() is None
    assert not list(Path("/sys/fs/cgroup").glob(f"**/buildqueue-{first.slot}"))


def test_what_a_run_took_when_it_crossed_its_limit_stands_on_it(
    workers: Workers,
) -> None:
    workers.start("--slots", "2")
    hungry = enqueue(
        "eat_memory",
        until_attempt=1,
        lines=120,
        options={"limits": Limits(memory_bytes=256 * MIB)},
    )
    busy = enqueue(
        "pipeline", until_attempt=1, options={"limits": Limits(cpu_seconds=0.5)}
    )
    wait_for(hungry)
    wait_for(busy)
    assert (runs(hungry)[0].peak_memory_bytes or 0) > 200 * MIB
    assert (runs(busy)[0].cpu_seconds or 0) >= 0.5


def test_the_limits_of_a_job_go_before_those_of_its_kind(workers: Workers) -> None:
    workers.start("--slots", "2")
    longer = enqueue(
        "hang",
        kind="limited_probe",
        seconds=2.5,
        options={"limits": Limits(time_seconds=60)},
    )
    shorter = enqueue(
        "hang",
        kind="limited_probe",
        until_attempt=1,
        options={"limits": Limits(soft_time_seconds=0.3)},
    )
    assert wait_for(longer).status == JobStatus.DONE
    assert wait_for(shorter).status == JobStatus.DONE
    assert [run.outcome for run in runs(longer)] == [RunOutcome.SUCCEEDED]
    assert runs(shorter)[0].error_code == "soft_timed_out"


def test_a_handler_that_heeds_its_soft_limit_ends_done(workers: Workers) -> None:
    workers.start("--slots", "1")
    limits = Limits(soft_time_seconds=0.5, time_seconds=60)
    job = wait_for(enqueue("soft_aware", options={"limits": limits}))
    assert (job.status, job.result) == (JobStatus.DONE, {"stopped_after": 0.5})
    assert (job.attempt, job.failures, job.crashes) == (1, 0, 0)


def test_a_step_that_takes_too_long_is_cut_short_and_has_not_happened(
    workers: Workers,
) -> None:
    workers.start()

    job = enqueue("slow_step", until_attempt=1, label="after")

    assert wait_for(job).status == JobStatus.DONE
    first, second = runs(job)
    assert (first.outcome, first.error_code) == ("failed", "step_timed_out")
    assert "step 'slow' has taken longer than its 0.5 s" in (first.error_msg or "")
    assert second.outcome == "succeeded"
    assert set(Effect.objects.values_list("label", flat=True)) == {"after"}
    kinds = JobEvent.objects.filter(job_id=job.pk).values_list("kind", flat=True)
    assert "step_failed" in kinds


def test_a_query_that_a_soft_limit_cuts_short_does_not_go_on(
    workers: Workers,
) -> None:
    workers.start("--slots", "1")
    limits = Limits(soft_time_seconds=0.5)
    job = enqueue("query", until_attempt=1, options={"limits": limits})
    assert wait_for(job).status == JobStatus.DONE
    assert runs(job)[0].error_code == "soft_timed_out"
    wait_until(lambda: not _sleeping_in_the_database())


def _sleeping_in_the_database() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active'"
            " AND datname = current_database() AND query LIKE 'SELECT pg_sleep%%')"
        )
        return bool(cursor.fetchone()[0])


def test_a_handler_that_ignores_its_soft_limit_meets_the_hard_one(
    workers: Workers,
) -> None:
    workers.start("--slots", "1")
    limits = Limits(soft_time_seconds=0.3, time_seconds=1)
    job = enqueue("soft_deaf", until_attempt=1, options={"limits": limits})
    assert wait_for(job).status == JobStatus.DONE
    assert runs(job)[0].error_code == "timed_out"


@pytest.mark.parametrize("verb", [verbs.cancel, verbs.pause, verbs.force_fail])
@pytest.mark.parametrize("behavior", ["hang_in_c", "burn_cpu", "pipeline"])
def test_a_job_that_a_person_takes_away_is_gone_with_its_tree_at_once(
    workers: Workers, behavior: Behavior, verb: Any
) -> None:
    worker = workers.start("--slots", "1", kill_grace_seconds=FOR_EVER)
    job = enqueue(behavior)
    run = wait_running(job)
    slot = psutil.Process(run.pid)
    below = 3 if behavior == "pipeline" else 0  # sh, yes and cat
    wait_until(lambda: len(slot.children(recursive=True)) == below, message=slot)
    tree = slot.children(recursive=True)
    verb(job.pk, actor=PERSON, reason="enough")
    _gone(run, tree, worker)
    assert wait_for(enqueue("ok")).status == JobStatus.DONE


def test_a_job_that_ignores_the_kind_way_is_gone_without_the_long_grace(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "1", kill_grace_seconds=FOR_EVER)
    job = enqueue("ignore_term", options={"limits": Limits(time_seconds=0.5)})
    run = wait_running(job)
    # Its time is over and it has its grace; then a person takes it.
    verbs.cancel(job.pk, actor=PERSON)
    _gone(run, [], worker)


def _gone(run: JobRun, tree: list[psutil.Process], worker: RunningWorker) -> None:
    closed = JobRun.objects.filter(pk=run.pk, ended_at__isnull=False)
    wait_until(closed.exists, message=worker.output)
    assert run.pid is not None
    assert not psutil.pid_exists(run.pid)
    assert not any(process.is_running() for process in tree)


def test_the_next_job_of_a_slot_has_no_limit_left_over(
    workers: Workers, tmp_path: Path
) -> None:
    workers.start("--slots", "1")
    before = wait_for(enqueue("bounds"))
    limited = [
        Limits(file_bytes=MIB, soft_time_seconds=60, time_seconds=90),
        Limits(memory_bytes=512 * MIB, processes=100, cpu_seconds=60),
    ]
    for limits in limited:
        within = wait_for(enqueue("bounds", options={"limits": limits}))
        after = wait_for(enqueue("bounds"))
        assert within.result != before.result
        assert after.result == before.result
    first = wait_for(
        enqueue("write_big", path=str(tmp_path / "big"), lines=2, until_attempt=1)
    )
    assert first.attempt == 1


def test_a_slot_that_dies_between_its_claim_and_the_go_costs_its_job_nothing(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "1")
    wait_for(enqueue("ok"))
    job = _claimed_while_frozen(worker)
    pid = runs(job)[0].pid
    assert pid is not None
    psutil.Process(pid).kill()
    wait_until(lambda: not psutil.pid_exists(pid), message=worker.output)
    worker.signal(signal.SIGCONT)
    assert wait_for(job).status == JobStatus.DONE
    first, second = runs(job)
    assert (first.outcome, first.error_code) == (
        RunOutcome.RELEASED,
        "killed_by_signal",
    )
    assert second.outcome == RunOutcome.SUCCEEDED
    ended = wait_for(job)
    assert (ended.attempt, ended.failures, ended.crashes) == (2, 0, 0)


def _claimed_while_frozen(worker: RunningWorker) -> BuildJob:
    """Return a job that a slot has claimed, its supervisor frozen before the "go"."""
    worker.signal(signal.SIGSTOP)
    job = enqueue("ok", options={"max_attempts": 1})
    second = connection.copy()
    try:
        with second.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("LOCK TABLE buildqueue_buildjob IN SHARE MODE")
            worker.signal(signal.SIGCONT)
            wait_until(_claim_waits, message=worker.output)
            worker.signal(signal.SIGSTOP)
            stopped = psutil.Process(worker.pid)
            wait_until(lambda: stopped.status() == psutil.STATUS_STOPPED)
            cursor.execute("COMMIT")
    finally:
        second.close()
    return wait_for(job, JobStatus.IN_PROGRESS)


def _claim_waits() -> bool:
    table = "'buildqueue_buildjob'::regclass"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT FROM pg_locks"
            f" WHERE NOT granted AND relation = {table})"
        )
        return bool(cursor.fetchone()[0])
