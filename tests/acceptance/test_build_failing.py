"""Where does a build fail, and what is true afterwards, in every row, process and file?

Each phase on real input, for a new agent and for one that has a running version: that
one answers all the time, and is shown as it was.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import psutil
import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.test import override_settings

from buildqueue.backends.base import InstanceStatus
from buildqueue.builds import failures, sources, submission
from buildqueue.builds.submission import GitRequest, Submission
from buildqueue.executors import cleaning
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    AgentVersion,
    BuildJob,
    Source,
)
from tests.host.dying import Death
from tests.support.gitserver import GitServer, git_server
from tests.support.jobs import runs, wait_for
from tests.support.waiting import wait_until

from .hosting import (
    ANNA,
    PHASES,
    Host,
    ask,
    deployments_of,
    done,
    steps,
    update,
    upload,
    versions_of,
    wait_step,
)

EXITS = "print('the model is missing', flush=True); sys.exit(7)"
NEVER = "print('still thinking', flush=True); time.sleep(600)"
MISSING = {"requirements.txt": "./no-such-package\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How a build is to fail."""

    phase: str
    code: str
    job_code: str | None = None  # when it is another
    exit_code: int | None = None
    said: str = ""  # in the reason and in the last lines of the phase
    runs: tuple[str, ...] = ("failed",)
    deployed: bool = False  # whether an instance of it was begun
    stored: bool = True  # whether its source was


@pytest.fixture
def git(here: Host) -> Iterator[GitServer]:
    """Have a server of repositories that may be fetched from."""
    with git_server() as server:
        given = {**django_settings.BUILDQUEUE, **server.settings}
        with override_settings(BUILDQUEUE=given):
            yield server


@pytest.fixture
def old(here: Host, git: GitServer) -> Submission:
    """Have an agent whose version 1.0.0 runs."""
    here.worker(health_tries=8, **git.settings)
    made = upload("old", "1.0.0")
    done(made.job)
    return made


def test_a_source_that_is_gone_fails_in_fetch(here: Host, old: Submission) -> None:
    with transaction.atomic():  # nobody fetches them before they are gone
        new = upload("new", "1.0.0", files={"notes": "new"})
        next_ = update(old.agent, "1.0.1", files={"notes": "next"})
        for made in (new, next_):
            sources.delete(made.build.source_key or "")

    expected = Expected(phase="fetch", code="source_missing", stored=False)
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_a_repository_that_is_gone_fails_in_fetch(
    here: Host, git: GitServer, old: Submission
) -> None:
    new, next_ = _from_git(old, GitRequest(url=git.url("anna/gone")))

    expected = Expected(
        phase="fetch", code="git_repository_not_found", exit_code=128, stored=False
    )
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_a_repository_that_cannot_be_built_fails_in_verify(
    here: Host, git: GitServer, old: Submission
) -> None:
    git.repository("anna/notes").commit({"README": "no program"})
    new, next_ = _from_git(old, GitRequest(url=git.url("anna/notes")))

    expected = Expected(phase="verify", code="no_dockerfile")
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_a_requirement_that_cannot_be_installed_fails_in_build(
    here: Host, old: Submission
) -> None:
    new = upload("new", "1.0.0", files=MISSING)
    next_ = update(old.agent, "1.0.1", files=MISSING)

    expected = Expected(
        phase="build",
        code="dependency_failed",
        exit_code=1,
        said="no-such-package",
    )
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_a_program_that_is_not_there_fails_in_health(
    here: Host, old: Submission
) -> None:
    files = {"Dockerfile": 'FROM python\nCOPY . /app\nCMD ["no-such-program"]\n'}
    new = upload("new", "1.0.0", files=files)
    next_ = update(old.agent, "1.0.1", files=files)

    expected = Expected(
        phase="health",
        code="start_failed",
        exit_code=127,
        said="no-such-program",
        deployed=True,
    )
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_an_agent_that_exits_fails_in_health(here: Host, old: Submission) -> None:
    new = upload("new", "1.0.0", before=EXITS)
    next_ = update(old.agent, "1.0.1", before=EXITS)

    expected = Expected(
        phase="health",
        code="start_failed",
        exit_code=7,
        said="the model is missing",
        deployed=True,
    )
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_an_agent_that_never_answers_fails_in_health(
    here: Host, old: Submission
) -> None:
    new = upload("new", "1.0.0", before=NEVER)
    next_ = update(old.agent, "1.0.1", before=NEVER)

    expected = Expected(
        phase="health", code="health_timeout", said="still thinking", deployed=True
    )
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_an_agent_that_ends_before_the_switch_fails_in_activate(
    here: Host, old: Submission
) -> None:
    death = Death(phase="activate", point="begin", waits=True)
    new = here.dying(partial(upload, "new", "1.0.0"), death)
    next_ = here.dying(partial(update, old.agent, "1.0.1"), death)
    for made in (new, next_):
        wait_step(made.job, "activate")
        _kill_candidate(here, made)
        here.let_go(made)

    expected = Expected(phase="activate", code="instance_not_running", deployed=True)
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def test_an_address_that_another_program_has_fails_in_activate(
    here: Host, old: Submission
) -> None:
    death = Death(phase="activate", point="begin", waits=True)
    new = here.dying(partial(upload, "new", "1.0.0"), death)
    next_ = here.dying(partial(update, old.agent, "1.0.1"), death)
    for made in (new, next_):
        wait_step(made.job, "activate")
    addresses = [here.status(made.agent).address for made in (new, next_)]
    daemon = here.daemon()
    psutil.Process(daemon).kill()
    with _taken(addresses):
        wait_until(lambda: here.daemon() not in (None, daemon))
        for made in (new, next_):
            here.let_go(made)
            wait_for(made.job)

    wait_until(lambda: _answers(old.agent))
    expected = Expected(
        phase="activate",
        code="address_taken",
        job_code="max_attempts_exhausted",
        runs=("failed", "failed", "failed"),
        deployed=True,
    )
    _assert_failed_both(here, old, new=new, next_=next_, expected=expected)


def _from_git(old: Submission, git: GitRequest) -> tuple[Submission, Submission]:
    new = submission.submit_clone(owner_id="1", caller=ANNA, name="new", git=git)
    return new, submission.submit_update(old.agent, caller=ANNA, git=git)


def _assert_failed_both(
    here: Host,
    old: Submission,
    *,
    new: Submission,
    next_: Submission,
    expected: Expected,
) -> None:
    for made in (new, next_):
        _assert_job_and_build(made, expected)
    still_open = BuildJob.objects.filter(completed_at=None)
    wait_until(lambda: not still_open.exists(), message=still_open)
    _assert_never_was(here, new, expected)
    _assert_is_as_before(here, old, next_, expected)
    assert here.work_folders() == []
    assert len(here.keepers()) == 1
    assert here.scratch_of(old.agent) == [here.status(old.agent).active]
    assert here.scratch_of(new.agent) == []
    cleaning.remove_unneeded(older_than_seconds=0)
    assert here.bundles_of(new.agent) == []
    assert len(here.bundles_of(old.agent)) == 1
    assert ask(old.agent)["version"] == "1.0.0"


def _assert_job_and_build(made: Submission, expected: Expected) -> None:
    job = wait_for(made.job)
    build = AgentBuild.objects.get(pk=made.build.pk)
    job_code = expected.job_code or expected.code
    assert (job.status, job.error_code) == ("failed", job_code), job.error_msg
    assert tuple(run.outcome for run in runs(job)) == expected.runs
    assert (job.result, job.lease_id) == (None, None)
    assert job.completed_at is not None
    assert (build.status, build.phase) == ("failed", expected.phase)
    assert build.error_code == expected.code
    assert build.hint == failures.last_hint_of(expected.code)
    assert build.hint
    assert build.exit_code == expected.exit_code
    assert expected.said in (build.error_msg or "")
    assert expected.said in (build.logs or "")
    assert build.completed_at is not None
    assert (build.version_id, build.job_id) == (None, job.pk)
    before = PHASES[: PHASES.index(expected.phase)]
    assert tuple(dict.fromkeys(steps(job, "step_finished"))) == before
    assert set(steps(job, "step_failed")) == {expected.phase}
    kept = Source.objects.filter(key=build.source_key or "").exists()
    assert kept == expected.stored


def _assert_never_was(here: Host, made: Submission, expected: Expected) -> None:
    agent = Agent.objects.get(pk=made.agent.pk)
    assert (agent.status, agent.url, agent.image) == ("failed", None, None)
    assert not AgentVersion.objects.filter(agent=agent).exists()
    _assert_deployment(made, expected)
    assert deployments_of(agent) == ["failed"] * expected.deployed
    assert here.processes_of(agent.pk) == []
    known = here.runtime.status(str(agent.pk))
    instances = known.instances if known else ()
    assert [one for one in instances if one.state in ("starting", "running")] == []


def _assert_deployment(made: Submission, expected: Expected) -> None:
    rows = AgentDeployment.objects.filter(build=made.build)
    assert len(rows) == expected.deployed
    for row in rows:
        assert row.status == "failed"
        assert row.crash_reason
        assert expected.said in (row.last_logs or "")
        assert row.service_url is None


def _assert_is_as_before(
    here: Host, old: Submission, made: Submission, expected: Expected
) -> None:
    agent = Agent.objects.get(pk=old.agent.pk)
    running = AgentDeployment.objects.get(agent=agent, status="running")
    assert (agent.status, agent.version) == ("running", "1.0.0")
    assert (agent.url, agent.image) == (running.service_url, running.spec_image)
    assert running.build_id == old.build.pk
    assert versions_of(agent) == {"1.0.0": "active"}
    assert deployments_of(agent) == ["running"] + ["failed"] * expected.deployed
    _assert_deployment(made, expected)
    status = here.status(agent)
    assert status.active == str(running.pk)
    alive = [one.instance_id for one in status.instances if one.state == "running"]
    assert alive == [str(running.pk)]
    pids = {process.pid for process in here.processes_of(agent.pk)}
    assert pids <= here.tree_of(agent)


@contextmanager
def _taken(addresses: list[str | None]) -> Iterator[None]:
    """Listen on the addresses, as another program does."""
    held: list[socket.socket] = []

    def take(address: str | None) -> bool:
        port = urlsplit(address or "").port
        assert port is not None
        with suppress(OSError):  # the killed runtime has it a moment longer
            held.append(socket.create_server(("127.0.0.1", port)))
            return True
        return False

    try:
        for address in addresses:
            wait_until(partial(take, address), message=address)
        yield
    finally:
        for each in held:
            each.close()


def _kill_candidate(here: Host, made: Submission) -> None:
    begun = AgentDeployment.objects.get(build=made.build)

    def seen() -> InstanceStatus:
        found = here.status(made.agent).instances
        return next(one for one in found if one.instance_id == str(begun.pk))

    psutil.Process(seen().pid).kill()
    wait_until(lambda: seen().state != "running", message=seen)


def _answers(agent: Agent) -> bool:
    try:
        return bool(ask(agent)["version"])
    except OSError:
        return False
