"""What becomes of waiting jobs and of running agents when the keys of secrets change?

After a rotation all goes on. With a key that reads nothing, nothing is started: no agent
without its secrets, no request without its token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from buildqueue.builds import secrets
from buildqueue.models import Agent, AgentBuild, AgentDeployment
from buildqueue.states import BuildStatus
from tests.support import blabbing
from tests.support.processes import RunningWorker
from tests.support.waiting import wait_until

from .hosting import Host
from .planting import OF_AGENT, Scene, keys, scene_on

OLD, NEW, OTHER = "o" * 40, "n" * 40, "x" * 40


@pytest.fixture
def waiting(here: Host) -> Iterator[Scene]:
    """Set the scene without a worker."""
    with scene_on(here) as made:
        yield made


def _asked(scene: Scene) -> dict[str, dict[str, Any]]:
    """Ask for all that needs a secret to be read."""
    scene.git.repository("anna/private").commit(blabbing.agent())
    scene.git.require_token(scene.values["token"])
    given = {"value": scene.values["token"]}
    assert scene.anna.ask("PUT", "/api/secrets/GIT", given).status_code == 200
    token = scene.values["token"]
    return {
        "env": scene.upload("env", blabbing.agent_zip()),
        "token": scene.clone("token", "anna/private", token=token),
        "secret": scene.clone("secret", "anna/private", secret="GIT"),
    }


def test_jobs_that_wait_while_the_keys_are_rotated_are_done(waiting: Scene) -> None:
    with keys(OLD):
        asked = _asked(waiting)
    with keys(NEW, OLD):
        told = waiting.anna.type("secret", "rotate")
    assert (told["rotated"], told["unreadable"]) == (3, [])
    with keys(NEW):
        waiting.worker()

        for each in asked.values():
            waiting.ended(each)

        env = waiting.env(*OF_AGENT)
        assert env.items() <= waiting.says("env").items()
        assert waiting.says("token")["MY_PROVIDED"] == waiting.values["provided"]


def test_what_no_key_reads_fails_closed_and_nothing_is_started(waiting: Scene) -> None:
    with keys(OLD):
        asked = _asked(waiting)
    with keys(OTHER):
        worker = waiting.worker()

        jobs = [waiting.ended(each, "failed") for each in asked.values()]

        assert {job.error_code for job in jobs} == {"secret_unreadable"}
        assert "MY_" in str(jobs[0].error_msg)
        assert not waiting.git.requests
        assert not AgentDeployment.objects.exists()
        builds = AgentBuild.objects.values_list("status", "error_code")
        assert set(builds) == {(BuildStatus.FAILED, "secret_unreadable")}
        for agent in Agent.objects.all():
            assert not waiting.here.processes_of(agent.pk), worker.output()
            assert not waiting.here.bundles_of(agent)


def test_an_agent_outlives_a_rotation(waiting: Scene) -> None:
    env = waiting.env(*OF_AGENT).items()
    with keys(OLD):
        worker = waiting.worker()
        waiting.ended(waiting.upload("echo", blabbing.agent_zip()))
        _end(waiting, worker)
    with keys(NEW, OLD):
        assert secrets.rotate().rotated
        worker = waiting.worker()
        wait_until(lambda: _says(waiting).items() >= env, message=worker.output)
        _end(waiting, worker)
    with keys(NEW):  # the runtime has sealed anew with it what it had found
        worker = waiting.worker()
        wait_until(lambda: _says(waiting).items() >= env, message=worker.output)


def test_what_a_runtime_cannot_open_is_not_run_without_and_brought_back_with_it(
    waiting: Scene,
) -> None:
    env = waiting.env(*OF_AGENT).items()
    with keys(OLD):
        worker = waiting.worker()
        waiting.ended(waiting.upload("echo", blabbing.agent_zip()))
        _end(waiting, worker)
    with keys(NEW, OLD):
        assert secrets.rotate().rotated
    with keys(NEW):  # the runtime was never started with both
        worker = waiting.worker()
        said = wait_until(lambda: _says(waiting), message=worker.output)
        assert said.items() >= env


def _end(scene: Scene, worker: RunningWorker) -> None:
    """End the worker, then the runtime with all that it runs."""
    worker.popen.terminate()
    worker.wait()
    daemon = int(str(scene.here.runtime.ping()["pid"]))
    scene.here.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not psutil.pid_exists(daemon))


def _says(scene: Scene) -> dict[str, str]:
    try:
        return scene.says("echo")
    except OSError:  # nobody answers, or the address says that nothing runs
        return {}
