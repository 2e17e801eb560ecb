"""Does an uploaded agent end up running, whatever is killed on the way?

A real worker, the real local runtime it starts, real processes. The agents listen a
moment after their start, so that a test can strike in the middle of a build.
"""

from __future__ import annotations

import signal

import psutil
import pytest
from django.db import connection

from buildqueue.builds.retirement import delete_agent, stop_agent
from buildqueue.executors import host
from buildqueue.models import AgentBuild, AgentDeployment, BuildJob
from buildqueue.states import AgentStatus, BuildStatus, JobStatus, RunOutcome
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.waiting import wait_until

from .hosting import ANNA, Host, ask, done, late, upload, wait_step


def test_a_build_whose_process_is_killed_is_tried_again_and_the_agent_answers(
    here: Host,
) -> None:
    here.worker()
    made = upload(before=late(3))
    wait_step(made.job, "health")
    (first,) = runs(made.job)
    psutil.Process(first.pid).send_signal(signal.SIGKILL)

    done(made.job)
    crashed, succeeded = runs(made.job)
    assert (crashed.outcome, crashed.exit_signal) == (RunOutcome.CRASHED, 9)
    assert succeeded.outcome == RunOutcome.SUCCEEDED
    assert AgentBuild.objects.get().status == BuildStatus.SUCCESS
    assert ask(made.agent)["pid"]
    status = here.runtime.status(str(made.agent.pk))
    assert status is not None
    assert len(status.instances) == 1  # nothing of the first attempt is left


def test_a_build_whose_whole_worker_is_killed_ends_done_on_another(here: Host) -> None:
    first = here.worker()
    made = upload(before=late(3))
    wait_step(made.job, "health")
    first.signal(signal.SIGKILL)
    first.wait()
    here.worker()

    done(made.job)
    assert [run.outcome for run in runs(made.job)] == ["lost", "succeeded"]
    assert ask(made.agent)["pid"]


@pytest.mark.parametrize("how", ["delete", "raw_delete"])
def test_deleting_the_agent_in_the_middle_leaves_no_process(
    here: Host, how: str
) -> None:
    worker = here.worker()
    made = upload(before=late(600))
    wait_step(made.job, "health")
    wait_until(lambda: here.processes_of(made.agent.pk), message=worker.output)

    if how == "delete":
        delete_agent(made.agent, actor=ANNA, reason="in the middle")
        assert wait_for(made.job).status == JobStatus.CANCELLED
    else:
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM buildqueue_agent WHERE id = %s", [made.agent.pk]
            )
        assert not BuildJob.objects.filter(pk=made.job.pk).exists()

    wait_until(
        lambda: not here.processes_of(made.agent.pk),
        message=lambda: (here.processes_of(made.agent.pk), worker.output()),
    )
    status = here.runtime.status(str(made.agent.pk))
    assert status is None or not status.instances


def test_a_deployed_agent_survives_the_worker_is_found_again_and_can_be_stopped(
    here: Host,
) -> None:
    first = here.worker()
    made = upload()
    done(made.job)
    told = ask(made.agent)
    first.signal(signal.SIGKILL)
    first.wait()
    second = here.worker()

    assert ask(made.agent)["pid"] == told["pid"]
    (stop,) = stop_agent(made.agent, actor=ANNA)
    assert wait_for(stop).status == JobStatus.DONE
    made.agent.refresh_from_db()
    assert made.agent.status == AgentStatus.STOPPED
    assert AgentDeployment.objects.get().status == "stopped"
    wait_until(lambda: not here.processes_of(made.agent.pk), message=second.output)


def test_an_agent_sees_nothing_of_the_workers_environment(here: Host) -> None:
    here.worker()
    made = upload()
    done(made.job)

    seen = ask(made.agent)["env"]
    assert not {"DATABASE_URL", "BUILDQUEUE_TEST_OVERRIDES", "SECRET_KEY"} & set(seen)
    assert set(seen) & {"PORT"}


def test_agents_left_by_a_killed_runtime_are_no_strays_of_a_job(here: Host) -> None:
    worker = here.worker()
    made = upload()
    done(made.job)
    told, daemon = ask(made.agent), here.daemon()
    psutil.Process(daemon).send_signal(signal.SIGKILL)
    wait_until(lambda: here.daemon() not in (None, daemon), message=worker.output)

    hanging = enqueue("hang", until_attempt=1)
    guardian = psutil.Process(wait_running(hanging).pid).parent()
    assert guardian is not None
    guardian.send_signal(signal.SIGKILL)

    assert wait_for(hanging).status == JobStatus.DONE
    assert ask(made.agent)["pid"] == told["pid"]


def test_a_worker_that_only_queues_starts_no_runtime(here: Host) -> None:
    here.worker()

    assert wait_for(enqueue("ok")).status == JobStatus.DONE

    assert not host.in_use()
