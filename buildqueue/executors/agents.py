"""What is common to the kinds that give an agent a version?

fetch, verify, build, publish, deploy, health, activate, clean: a killed attempt is gone
on with at the step it died in, on the same source and with the same instance, as far as
they are still there. Until the activation the old instance answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .. import conf
from ..backends.masking import Masker
from ..builds import environment, lifecycle, results, secrets
from ..builds.lifecycle import opening, progress
from ..builds.payloads import NO_SPEC, Source, Spec
from ..exceptions import Rejected
from ..models import Agent, AgentBuild
from ..queue import database
from ..queue.context import Context
from ..queue.limits import Limits
from . import base, building, gathering
from .base import BuildRun
from .instances import Instance

if TYPE_CHECKING:
    from ..backends.base import BuiltArtifact

# What every kind that builds for an agent is registered with.
OPTIONS: dict[str, Any] = {
    "isolated": True,
    "services": base.SERVICES,
    "limits": Limits(time_seconds=conf.get().build_time_limit_seconds),
    "on_final": lifecycle.on_final,
    "on_reopen": lifecycle.on_reopen,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One build of an agent, whatever its kind."""

    build_id: UUID
    agent_id: UUID
    source: Source
    version: str | None  # reserved for it, or given by another system
    fixed: bool  # the version is never another, whatever the source says
    spec: Spec = NO_SPEC
    env: Mapping[str, str]  # in clear, of another system's rows
    deploying: bool = True


@dataclass(slots=True, kw_only=True)
class Made:
    """A build that has left an artifact, and what is known for its deployment."""

    run: BuildRun
    agent: Agent
    version: str
    artifact: BuiltArtifact
    env: Mapping[str, str]


@contextmanager
def built(ctx: Context, wanted: Wanted) -> Iterator[Made]:
    """Fetch, verify, build and publish; what is done inside comes before the clean-up."""
    base.check_target(ctx, wanted.agent_id)
    agent, build = _rows(wanted)
    token = _token(agent, build, wanted)
    env = {**environment.environment_of(agent, build.secrets_env), **wanted.env}
    run = BuildRun(
        ctx=ctx,
        target_id=wanted.agent_id,
        build_id=wanted.build_id,
        masker=Masker([*env.values(), *([token] if token else [])]),
        deploying=wanted.deploying,
    )
    if wanted.env:
        # Of another system, in clear: from here on it rests as the owner's secret.
        given = secrets.encrypt_env(agent.owner_id, wanted.env)
        progress.write(run.fence, secrets_env={**build.secrets_env, **given})
    with run.folder() as folder:
        tree = gathering.gather(run, wanted.source, folder, token=lambda: token)
        version = building.verify(run, tree, _chooser(wanted))
        artifact = building.build(run, tree, version)
        building.publish(run, artifact)
        yield Made(run=run, agent=agent, version=version, artifact=artifact, env=env)
        clean(run, folder)


def build_and_deploy(ctx: Context, wanted: Wanted) -> results.Deployed:
    """Do it all, and return what the lifecycle makes the agent's version of."""
    with built(ctx, wanted) as made:
        used = base.running_runtime()
        asked = Instance(
            agent=made.agent,
            build_id=wanted.build_id,
            reference=made.artifact.reference,
            spec=wanted.spec,
            declared=made.artifact.ports,
            env=made.env,
        )
        live = asked.deploy(made.run, used)
    return asked.result(
        live, used, version=made.version, digest=made.artifact.digest, built=True
    )


def clean(run: BuildRun, folder: Path) -> None:
    """Remove what the build no longer needs."""
    from ..backends.trees import remove_tree

    with run.phase("clean") as step:
        if not step.done:
            for path in folder.iterdir():
                remove_tree(path) if path.is_dir() else path.unlink()


def _rows(wanted: Wanted) -> tuple[Agent, AgentBuild]:
    alias = database.alias()
    agent = Agent.objects.using(alias).get(pk=wanted.agent_id)
    mine = AgentBuild.objects.using(alias).filter(agent_id=wanted.agent_id)
    build = mine.filter(pk=wanted.build_id).first()
    if build is None:
        raise Rejected("build_missing", "the build's row is gone; ask for a new build")
    return agent, build


def _token(agent: Agent, build: AgentBuild, wanted: Wanted) -> str | None:
    return gathering.token_of(wanted.source, agent.owner_id, build.source_token)


def _chooser(wanted: Wanted) -> Callable[[Path], str]:
    def choose(tree: Path) -> str:
        return opening.version_of(
            wanted.agent_id,
            wanted.build_id,
            given=wanted.version,
            fixed=wanted.fixed,
            tree=tree,
        )

    return choose
