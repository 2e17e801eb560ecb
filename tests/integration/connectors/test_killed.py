"""Is a connector's build done whatever is killed on the way? Real workers, kill -9."""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import Any

import psutil
import pytest

from buildqueue.builds.connectors.retirement import delete_connector
from buildqueue.models import BuildJob, JobEvent, McpConnector
from buildqueue.states import JobStatus, RunOutcome
from tests.integration.builds.conftest import ANNA
from tests.support.jobs import runs, wait_for
from tests.support.mcpserver import call, server_zip
from tests.support.waiting import wait_until

from .conftest import Here, connector_of, job_of, submit, tools_of

pytestmark = pytest.mark.slow


def _wait_step(job: BuildJob, name: str) -> None:
    begun = JobEvent.objects.filter(job=job, kind="step_started", title=name)
    wait_until(begun.exists, message=lambda: list(JobEvent.objects.values("title")))


def _told(connector: McpConnector) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(connector.url or "", "tell"))
    return found


def test_a_build_that_is_killed_while_it_waits_goes_on_with_the_same_server(
    here: Here,
) -> None:
    here.worker()
    made = submit(source=server_zip(manner="held"))
    _wait_step(made.job, "health")
    workload = str(made.connector.pk)
    begun = wait_until(lambda: here.runtime.status(workload))
    (first,) = runs(made.job)
    psutil.Process(first.pid).send_signal(signal.SIGKILL)
    wait_until(lambda: len(runs(made.job)) == 2, message="no second attempt")
    _release(here, workload)

    ended = wait_for(made.job)
    assert ended.status == JobStatus.DONE, f"{ended.error_code}: {ended.error_msg}"
    crashed, succeeded = runs(made.job)
    assert (crashed.outcome, crashed.exit_signal) == (RunOutcome.CRASHED, 9)
    assert succeeded.outcome == RunOutcome.SUCCEEDED
    connector = connector_of(made)
    assert str(connector.instance_id) == begun.instances[0].instance_id
    assert tools_of(made) == ["echo", "tell"]
    assert _told(connector)["version"] == "1.0.0"
    finished = JobEvent.objects.filter(job=made.job, kind="step_finished")
    titles = list(finished.values_list("title", flat=True))
    assert len(titles) == len(set(titles)), "a finished step was run again"


@pytest.mark.parametrize("step", ["build", "deploy"])
def test_a_build_whose_worker_is_killed_ends_done_on_another(
    here: Here, step: str
) -> None:
    first = here.worker()
    made = submit(source=server_zip())
    _wait_step(made.job, step)
    first.signal(signal.SIGKILL)
    first.wait()
    here.worker()

    assert wait_for(made.job).status == JobStatus.DONE
    seen = here.runtime.status(str(made.connector.pk))
    assert seen is not None
    assert [one.instance_id for one in seen.instances] == [
        str(connector_of(made).instance_id)
    ]
    assert _told(connector_of(made))["version"] == "1.0.0"


def test_deleting_in_the_middle_leaves_no_process(here: Here) -> None:
    worker = here.worker()
    made = submit(source=server_zip(manner="held"))
    _wait_step(made.job, "health")

    delete_connector(made.connector, actor=ANNA, reason="in the middle")

    assert wait_for(made.job).status == JobStatus.CANCELLED
    wait_until(
        lambda: here.runtime.status(str(made.connector.pk)) is None,
        message=worker.output,
    )
    assert job_of(made).error_msg == "in the middle"


def _release(here: Here, workload_id: str) -> None:
    """Tell the held server that it may speak from now on."""
    seen = here.runtime.status(workload_id)
    assert seen is not None
    (instance,) = seen.instances
    url = f"http://127.0.0.1:{instance.port}/release"
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.status == 200
