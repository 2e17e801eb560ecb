"""Is a build gone on with where it died, in whatever phase, and nothing done twice?

Real SIGKILLs: by the job's process itself at the begin of a phase or at its end, before
its checkpoint, of many agents at once in one worker; by the test where the world must
change meanwhile, or where the whole worker goes.
"""

from __future__ import annotations

import signal
from functools import partial
from typing import Literal

import psutil
import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from buildqueue.builds import submission
from buildqueue.builds.submission import GitRequest, Submission
from buildqueue.executors import reconcile
from buildqueue.models import Agent, AgentBuild, AgentDeployment
from buildqueue.states import RunOutcome
from tests.host.dying import Death
from tests.support.gitserver import git_server
from tests.support.jobs import runs
from tests.support.waiting import wait_until

from .hosting import (
    ANNA,
    PHASES,
    Host,
    ask,
    deployments_of,
    done,
    program,
    steps,
    update,
    upload,
    versions_of,
    wait_step,
)

Point = Literal["begin", "end"]


@pytest.mark.parametrize("point", ["begin", "end"])
def test_a_build_killed_in_a_phase_is_gone_on_with_there(
    here: Host, point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.worker()

    firsts = {
        phase: here.dying(
            partial(upload, phase, "1.0.0"),
            Death(phase=phase, point=point),
        )
        for phase in PHASES
    }
    for phase, made in firsts.items():
        _assert_done_in_the_second_attempt(made, phase)
    addresses = {
        made.agent.name: _assert_one_answers(here, made) for made in firsts.values()
    }
    updates = {
        phase: here.dying(
            partial(update, made.agent, "1.0.1"),
            Death(phase=phase, point=point),
        )
        for phase, made in firsts.items()
    }
    for phase, made in updates.items():
        _assert_done_in_the_second_attempt(made, phase)
        assert _assert_one_answers(here, made) == addresses[phase]
        assert versions_of(made.agent) == {"1.0.0": "archived", "1.0.1": "active"}

    assert len(here.keepers()) == len(PHASES)
    monkeypatch.setattr(reconcile, "WORK_FOLDER_SECONDS", 0.0)
    reconcile.reconcile_host()
    assert here.work_folders() == []


def test_a_repository_is_built_at_the_commit_of_the_first_attempt(here: Host) -> None:
    with git_server() as server:
        given = {**django_settings.BUILDQUEUE, **server.settings}
        with override_settings(BUILDQUEUE=given):
            here.worker(**server.settings)
            repository = server.repository("anna/echo")
            first = repository.commit({"main.py": program("first")})
            made = here.dying(
                lambda: submission.submit_clone(
                    owner_id="1",
                    caller=ANNA,
                    name="echo",
                    git=GitRequest(url=server.url("anna/echo"), ref="main"),
                ),
                Death(phase="verify", point="begin", waits=True),
            )
            wait_step(made.job, "verify")
            repository.force_push({"main.py": program("second")})
            psutil.Process(runs(made.job)[0].pid).send_signal(signal.SIGKILL)
            _assert_done_in_the_second_attempt(made, "verify")

    assert AgentBuild.objects.get().commit_hash == first
    assert ask(made.agent)["version"] == "first"


def test_a_repository_fetched_anew_tells_the_commit_that_it_was_fetched_at(
    here: Host,
) -> None:
    """An attempt that dies before the fetch is done has fetched nothing."""
    with git_server() as server:
        given = {**django_settings.BUILDQUEUE, **server.settings}
        with override_settings(BUILDQUEUE=given):
            here.worker(**server.settings)
            repository = server.repository("anna/echo")
            repository.commit({"main.py": program("first")})
            made = here.dying(
                lambda: submission.submit_clone(
                    owner_id="1",
                    caller=ANNA,
                    name="echo",
                    git=GitRequest(url=server.url("anna/echo"), ref="main"),
                ),
                Death(phase="fetch", point="end", waits=True),
            )
            wait_until(
                lambda: AgentBuild.objects.filter(commit_hash__isnull=False).exists()
            )
            second = repository.force_push({"main.py": program("second")})
            psutil.Process(runs(made.job)[0].pid).send_signal(signal.SIGKILL)
            _assert_done_in_the_second_attempt(made, "fetch")

    answers = ask(made.agent)["version"]
    commit = AgentBuild.objects.get().commit_hash
    assert (answers, commit) == ("second", second)


def test_builds_whose_worker_is_killed_are_gone_on_with_by_another(here: Host) -> None:
    first = here.worker("--slots", "3")
    deaths: dict[str, Point] = {"build": "end", "health": "begin", "activate": "end"}
    jobs = {
        phase: here.dying(
            partial(upload, phase, "1.0.0"),
            Death(phase=phase, point=point, waits=True),
        )
        for phase, point in deaths.items()
    }
    for phase, made in jobs.items():
        wait_step(made.job, phase)
    first.signal(signal.SIGKILL)
    first.wait()
    wait_until(lambda: not first.find("buildqueue.worker"), message=first.below)
    here.worker()

    for phase, made in jobs.items():
        done(made.job)
        outcomes = [run.outcome for run in runs(made.job)]
        assert outcomes == [RunOutcome.LOST, RunOutcome.SUCCEEDED], phase
        _assert_nothing_repeated(made, phase)
        _assert_one_answers(here, made)
    assert len(here.keepers()) == len(jobs)


def _assert_done_in_the_second_attempt(made: Submission, phase: str) -> None:
    done(made.job)
    crashed, succeeded = runs(made.job)
    assert (crashed.outcome, crashed.exit_signal) == (RunOutcome.CRASHED, 9), phase
    assert succeeded.outcome == RunOutcome.SUCCEEDED, phase
    _assert_nothing_repeated(made, phase)


def _assert_nothing_repeated(made: Submission, phase: str) -> None:
    before = [name for name in PHASES if PHASES.index(name) < PHASES.index(phase)]
    assert steps(made.job, "step_skipped") == before, phase
    assert steps(made.job, "step_finished") == list(PHASES), phase
    rest = list(PHASES[PHASES.index(phase) :])
    assert steps(made.job, "step_started") == [*before, phase, *rest], phase
    build = AgentBuild.objects.get(pk=made.build.pk)
    assert (build.status, build.phase, build.error_code) == ("success", "clean", None)


def _assert_one_answers(here: Host, made: Submission) -> str:
    """Assert that one deployment of one instance is there; return its address."""
    agent = Agent.objects.get(pk=made.agent.pk)
    running = AgentDeployment.objects.get(agent=agent, status="running")
    statuses = set(deployments_of(agent))
    assert statuses <= {"running", "stopped", "failed"}, agent.name
    assert running.build_id == made.build.pk, agent.name
    status = here.status(agent)
    assert [one.instance_id for one in status.instances] == [str(running.pk)]
    assert status.active == str(running.pk), agent.name
    (instance,) = status.instances
    assert instance.state == "running", agent.name
    told = ask(agent)
    assert (agent.status, agent.url) == ("running", running.service_url)
    assert agent.version == told["version"] == made.version
    pids = {process.pid for process in here.processes_of(agent.pk)}
    # In a namespace it knows itself by another number.
    assert told["pid"] in pids or instance.confined == "namespace", agent.name
    assert pids <= here.tree_of(agent), agent.name
    assert agent.url is not None
    return agent.url
