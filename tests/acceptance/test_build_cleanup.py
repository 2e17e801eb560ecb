"""What is left on a host after many builds and crashes? What a rollback needs, no more.

Every kind of leftover is looked for: processes, work folders, artifacts, sources, what
instances wrote and printed, and temporary files of whatever the worker has started.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from buildqueue.builds import sourcepruning, sources, submission
from buildqueue.builds.retirement import delete_agent
from buildqueue.builds.sourceplace import FOLDER
from buildqueue.builds.submission import GitRequest, Submission
from buildqueue.executors import cleaning, host, reconcile
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
    program,
    update,
    upload,
)

pytestmark = pytest.mark.slow

SEED = 20
CRASHES = 10
VERSIONS = ("1.0.0", "1.0.1", "1.0.2", "1.0.3")
KEPT_VERSIONS = 2  # besides the one that runs
KEPT = VERSIONS[-1 - KEPT_VERSIONS :]
PAST_OUTPUTS = 5  # of instances that have ended, which the runtime keeps
NAMES = ("anna", "bert", "cleo", "dora", "git")


def test_only_what_a_rollback_needs_is_left_after_builds_and_crashes(
    here: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir(mode=0o777)
    temporary.chmod(0o1777)
    with git_server() as server, override_settings(BUILDQUEUE=_settings(server)):
        monkeypatch.setenv("TMPDIR", str(temporary))
        worker = here.worker(keep_versions=KEPT_VERSIONS, **server.settings)
        monkeypatch.delenv("TMPDIR")
        agents = _build_all(here, server)
    doomed, deleted = _end_badly(here)
    wait_until(_nothing_open, message=worker.output)

    monkeypatch.setattr(reconcile, "WORK_FOLDER_SECONDS", 0.0)
    _do_duties()

    assert here.work_folders() == []
    assert list(temporary.iterdir()) == []
    assert len(here.keepers()) == len(agents)
    for agent in agents:
        _assert_kept(here, agent)
    for agent in (doomed, deleted):
        _assert_gone(here, agent)
    assert here.runtime.status(str(deleted.pk)) is None
    assert _outputs_of(deleted) == []
    _assert_sources(agents)
    assert _do_duties() == (0, 0, 0)


def _settings(server: GitServer) -> dict[str, object]:
    return {**django_settings.BUILDQUEUE, **server.settings}


def _build_all(here: Host, server: GitServer) -> list[Agent]:
    """Build each version of each agent; some of the builds die on their way."""
    chance = random.Random(SEED)
    every = [(name, version) for version in VERSIONS for name in NAMES]
    dying = set(chance.sample(every, CRASHES))
    agents: dict[str, Agent] = {}
    for version in VERSIONS:
        asked = {}
        for name in NAMES:
            death = Death(
                phase=chance.choice(PHASES), point=chance.choice(("begin", "end"))
            )
            ask_for = partial(_ask_for, agents.get(name), name, version, server)
            is_dying = (name, version) in dying
            asked[name] = here.dying(ask_for, death) if is_dying else ask_for()
        for name, made in asked.items():
            done(made.job)
            assert len(runs(made.job)) == 1 + ((name, version) in dying)
            agents[name] = made.agent
    return list(agents.values())


def _ask_for(
    agent: Agent | None, name: str, version: str, server: GitServer
) -> Submission:
    if name != "git":
        return update(agent, version) if agent else upload(name, version)
    server.repository("anna/git").commit({"main.py": program(version)})
    git = GitRequest(url=server.url("anna/git"))
    if agent:
        return submission.submit_update(agent, caller=ANNA, git=git, version=version)
    return submission.submit_clone(
        owner_id="1", caller=ANNA, name=name, git=git, version=version
    )


def _end_badly(here: Host) -> tuple[Agent, Agent]:
    """Have an agent whose every attempt died, and one that was deleted."""
    death = Death(phase="health", point="begin", attempts=3)
    doomed = here.dying(
        partial(upload, "doomed", files={"notes": "never to run"}), death
    )
    deleted = upload("deleted", files={"notes": "not for long"})
    done(deleted.job)
    assert wait_for(doomed.job).status == "failed"
    delete_agent(deleted.agent, actor=ANNA)
    return doomed.agent, deleted.agent


def _nothing_open() -> bool:
    return not BuildJob.objects.filter(completed_at=None).exists()


def _do_duties() -> tuple[int, int, int]:
    """Do all duties as if everything were old; return what they have removed."""
    counts = reconcile.reconcile_host()
    assert not counts.failed
    return (
        counts.folders + counts.ended + counts.deleted,
        cleaning.remove_unneeded(older_than_seconds=0),
        sourcepruning.prune(retention=timedelta(0), orphan_age=timedelta(0)),
    )


def _assert_kept(here: Host, agent: Agent) -> None:
    told = ask(agent)
    assert (told["version"], agent.version) == (VERSIONS[-1], VERSIONS[-1])
    rows = AgentVersion.objects.filter(agent=agent)
    ready = rows.filter(is_active=True) | rows.filter(can_rollback=True)
    assert sorted(ready.values_list("version", flat=True)) == list(KEPT)
    bundles = [name.partition("-")[0] for name in here.bundles_of(agent)]
    assert bundles == list(KEPT)
    running = AgentDeployment.objects.get(agent=agent, status="running")
    assert "starting" not in deployments_of(agent)
    (instance,) = here.status(agent).instances
    assert instance.instance_id == str(running.pk)
    assert here.scratch_of(agent) == [str(running.pk)]
    assert {each.pid for each in here.processes_of(agent.pk)} <= here.tree_of(agent)
    outputs = _outputs_of(agent)
    assert str(running.pk) in outputs
    assert len(outputs) <= 1 + PAST_OUTPUTS


def _assert_gone(here: Host, agent: Agent) -> None:
    assert here.processes_of(agent.pk) == []
    assert here.bundles_of(agent) == []
    assert here.scratch_of(agent) == []


def _outputs_of(agent: Agent) -> list[str]:
    folder = host.local_root() / "runtime" / "instances" / str(agent.pk)
    return [each.name for each in folder.glob("*")]


def _assert_sources(agents: Sequence[Agent]) -> None:
    """Assert that the sources of what can run are there, and no other."""
    builds = AgentBuild.objects.filter(agent__in=agents, version_tag__in=KEPT)
    needed = {build.source_key for build in builds}
    assert set(Source.objects.values_list("key", flat=True)) == needed
    place = Path(sources.storage().path(FOLDER))
    files = {file.name for file in place.rglob("*") if file.is_file()}
    assert files == {str(key).rpartition("/")[2] for key in needed}
