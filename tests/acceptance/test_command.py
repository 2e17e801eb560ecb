"""Does `runworker` say what it does, and why it does not?"""

from __future__ import annotations

import re
import signal
import subprocess
import uuid
from typing import Any

import pytest
from django.db import connection

from buildqueue.models import BuildJob, LogChunk
from buildqueue.states import JobStatus, RunOutcome
from buildqueue.worker.supervisor import LONGEST_WAIT
from tests.host.jobs import Behavior
from tests.support.jobs import enqueue, runs, wait_for
from tests.support.processes import RunningWorker, Workers, command, environment
from tests.support.waiting import wait_until


def refused(*arguments: str, name: str = "runworker", **overrides: Any) -> str:
    """Run the command; return what it says, once it has failed as it should."""
    ended = subprocess.run(
        command(name, *arguments),
        env=environment(**overrides),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    return ended.stderr


def database(**changes: Any) -> dict[str, Any]:
    wanted = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
    given = {key: connection.settings_dict[key] for key in wanted}
    return {"default": given | changes}


NAMED = [("runworker", ()), ("buildqueue", ("list",))]


@pytest.mark.parametrize(("name", "arguments"), NAMED)
def test_a_server_that_is_not_there_is_told(
    committed: None, name: str, arguments: tuple[str, ...]
) -> None:
    away = database(HOST="127.0.0.1", PORT=1)
    told = refused(*arguments, name=name, DATABASES=away)
    assert "cannot be reached" in told
    assert "Is the server running" in told


@pytest.mark.parametrize(("name", "arguments"), NAMED)
def test_missing_tables_are_told(
    committed: None, name: str, arguments: tuple[str, ...]
) -> None:
    given = connection.settings_dict["OPTIONS"]
    empty = {**given, "options": "-c search_path=no_such_schema"}
    told = refused(*arguments, name=name, DATABASES=database(OPTIONS=empty))
    assert "manage.py migrate" in told


def test_another_database_than_postgresql_is_told(committed: None) -> None:
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    assert "needs PostgreSQL 15" in refused(DATABASES={"default": sqlite})


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--slots", "0", "--slots"),
        ("--max-jobs", "0", "--max-jobs"),
        ("--poll-interval", "0", "--poll-interval"),
        ("--drain", "-1", "--drain"),
    ],
)
def test_an_impossible_option_is_told(
    committed: None, option: str, value: str, word: str
) -> None:
    assert word in refused(f"{option}={value}")


def test_a_wrong_setting_is_told(committed: None) -> None:
    told = refused(BUILDQUEUE={"LEASE_SECONS": 3})
    assert "did you mean 'LEASE_SECONDS'" in told


def test_the_help_names_every_option(committed: None) -> None:
    ended = subprocess.run(
        command("runworker", "--help"),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    for option in (
        "--queues",
        "--slots",
        "--poll-interval",
        "--max-jobs",
        "--burst",
        "--drain",
        "--no-duties",
        "--show-output",
    ):
        assert option in ended.stdout


def test_at_its_start_a_worker_says_what_it_serves(workers: Workers) -> None:
    told = workers.start("--queues", "a,b", "--slots", "3").output()
    assert "a, b, 3 slots" in told
    assert "isolated_probe" in told
    assert "Ctrl-C" in told


def test_a_burst_ends_when_no_job_is_due(workers: Workers) -> None:
    kinds = ["ok", "kill", "raise", "retry"] * 3
    jobs = [enqueue(kind, until_attempt=1) for kind in kinds]
    jobs += [enqueue("ok", kind="isolated_probe") for _ in range(3)]
    settings = {"backoff_base_seconds": 0.001, "backoff_max_seconds": 0.001}
    worker = workers.start("--burst", "--slots", "2", ready=False, **settings)
    assert worker.wait() == 0, worker.output()
    for job in jobs:
        job.refresh_from_db()
        assert job.status != JobStatus.PENDING
        assert {run.outcome for run in runs(job)} <= {*RunOutcome.values}
    light = BuildJob.objects.exclude(status=JobStatus.SCHEDULED)
    assert set(light.values_list("status", flat=True)) == {JobStatus.DONE}
    assert worker.all_gone()


def test_a_worker_stops_after_so_many_jobs(workers: Workers) -> None:
    jobs = [enqueue("ok") for _ in range(20)]
    worker = workers.start("--max-jobs", "7", "--slots", "3", ready=False)
    assert worker.wait() == 0, worker.output()
    done = BuildJob.objects.filter(status=JobStatus.DONE).count()
    assert (done, BuildJob.objects.filter(attempt__gt=0).count()) == (7, 7)
    assert len(jobs) == 20


@pytest.mark.parametrize("option", ["--burst", "--max-jobs=3"])
def test_a_worker_that_stops_by_itself_waits_for_nothing_more(
    workers: Workers, option: str
) -> None:
    jobs = [enqueue("ok") for _ in range(3)]
    worker = workers.start(
        option, ready=False, rescue_seconds=10_000.0, maintenance_seconds=10_000.0
    )
    # Well below the longest time that an idle worker sleeps without a message.
    assert worker.wait(timeout=LONGEST_WAIT * 0.75) == 0
    for job in jobs:
        job.refresh_from_db()
        assert job.status == JobStatus.DONE


def line_of(worker: RunningWorker, wanted: str) -> str:
    """Return the worker's line that matches, and fail when it does not come."""
    stamped = rf"^\d{{4}}-\d\d-\d\d [\d:,]+ {wanted}$"
    found = wait_until(
        lambda: re.search(stamped, worker.output(), re.M), message=worker.output
    )
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    ("behavior", "told"),
    [
        ("ok", "INFO probe {} done"),
        ("fail", "WARNING probe {} failed: told to fail"),
        ("retry", "WARNING probe {} tried again in 0 s: told to retry"),
        ("snooze", "INFO probe {} snoozed"),
        ("kill", "WARNING probe {} crashed: its process was ended by SIGKILL"),
    ],
)
def test_a_worker_says_what_became_of_a_run(
    workers: Workers, behavior: Behavior, told: str
) -> None:
    worker = workers.start("--slots", "1")
    job = enqueue(behavior, until_attempt=1)
    wait_for(job)
    assert line_of(worker, told.format(job.pk))


def test_what_the_duties_say_names_the_job_under_one_time_and_level(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "1")
    job = enqueue("kill", until_attempt=1)
    wait_for(job)
    cause = "its process was ended by SIGKILL"
    assert line_of(worker, f"WARNING job {job.pk} runs again after attempt 1: {cause}")


def test_ctrl_c_ends_the_following_of_a_log_quietly(committed: None) -> None:
    job = enqueue("ok")
    told = {"run_id": uuid.uuid4(), "attempt": 1, "seq": 1, "stream": "stdout"}
    LogChunk.objects.create(job_id=job.pk, text="begun\n", **told)
    # A shell may have started us with the signal ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        following = subprocess.Popen(
            command("buildqueue", "logs", "-f", str(job.pk)),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with following:
        try:
            assert following.stdout is not None
            assert following.stdout.readline() == "begun\n"
            following.send_signal(signal.SIGINT)
            assert following.communicate(timeout=60) == ("", "")
        finally:
            following.kill()
    assert following.returncode == 130


def test_output_is_shown_when_asked_for(workers: Workers) -> None:
    job = enqueue("print", lines=2)
    worker = workers.start("--burst", "--show-output", ready=False)
    assert worker.wait() == 0
    assert f"{str(job.pk)[:8]} | out 1" in worker.output()


def test_a_thread_opened_at_loading_makes_slots_start_by_themselves(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "1", apps=("tests.host_threaded",))
    assert "a-library" in worker.output()
    job = enqueue("kill", until_attempt=1)
    assert wait_for(job).status == JobStatus.DONE
    assert [run.outcome for run in runs(job)] == ["crashed", "succeeded"]
    assert wait_for(enqueue("print")).status == JobStatus.DONE
