"""What should an agent's next instance be like, and how does it come to run?

What is asked for now wins over what the agent has; what neither says the artifact does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .. import conf
from ..builds import results
from ..builds.lifecycle import deploying as rows
from ..builds.payloads import Spec
from ..models import Agent
from . import deploying, host
from .base import Run
from .deploying import Candidate, Live

if TYPE_CHECKING:
    from ..backends.base import Runtime, WorkloadSpec

DEFAULT_PORTS = (8000,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What the agent's next instance should be like."""

    agent: Agent
    build_id: UUID
    reference: str
    spec: Spec
    declared: Sequence[int]  # the ports that the artifact names
    env: Mapping[str, str]

    @property
    def ports(self) -> tuple[int, ...]:
        """Return the ports asked for now, or before, or named by the artifact."""
        asked = self.spec.ports or self.agent.ports or self.declared
        return tuple(asked) or DEFAULT_PORTS

    @property
    def resources(self) -> dict[str, Any]:
        """Return the limits asked for now, over those of before."""
        names = ("memory_mb", "cpus", "processes")
        now = {name: getattr(self.spec, name) for name in names}
        told = {name: value for name, value in now.items() if value is not None}
        return {**self.agent.resources, **told}

    def deploy(self, run: Run, used: Runtime) -> Live:
        """Start it beside what runs, and lead the address there once it is healthy."""
        return deploying.deploy(
            run,
            used,
            Candidate(
                spec_of=self._workload,
                begin=lambda spec: self._begin(run, used, spec),
                is_begun=lambda one: rows.is_begun(self.agent.pk, one),
                ask=lambda one: self._ask(run, used, one),
                give_up=lambda one, reason, logs: rows.give_up(
                    self.agent.pk, one, reason=reason, logs=logs
                ),
            ),
        )

    def result(
        self, live: Live, used: Runtime, *, version: str, digest: str, built: bool
    ) -> results.Deployed:
        """Return what the job leaves behind."""
        return results.Deployed(
            build_id=self.build_id,
            version=version,
            image_reference=self.reference,
            digest=digest,
            ports=self.ports,
            deployment_id=live.instance_id,
            service_url=live.address,
            runtime=used.name,
            host=host.host_id(),
            card=live.said or {},
            asked=self.spec,
            built=built,
        )

    def _workload(self, instance_id: UUID) -> WorkloadSpec:
        from ..backends.base import Resources, WorkloadSpec

        agent, spec = self.agent, self.spec
        known = {name: each for name, each in self.resources.items() if each}
        return WorkloadSpec(
            workload_id=str(agent.pk),
            instance_id=str(instance_id),
            reference=self.reference,
            env=self.env,
            replicas=spec.replicas or agent.replicas,
            resources=Resources(**known),
            writable=agent.writable if spec.writable is None else spec.writable,
            writable_path=spec.writable_path or agent.writable_path,
        )

    def _begin(self, run: Run, used: Runtime, spec: WorkloadSpec) -> None:
        rows.begin(
            run.ctx.job.pk,
            run.ctx.lease_id,
            rows.NewDeployment(
                id=UUID(spec.instance_id),
                agent_id=self.agent.pk,
                build_id=self.build_id,
                image=self.reference,
                ports=self.ports,
                replicas=spec.replicas,
                resources=self.resources,
                env_names=tuple(sorted(self.env)),
                writable=spec.writable,
                writable_path=spec.writable_path,
                owner_id=self.agent.owner_id,
                runtime=used.name,
                host=host.host_id(),
            ),
        )

    def _ask(self, run: Run, used: Runtime, instance_id: UUID) -> dict[str, Any]:
        """Return the agent's card once the instance answers."""
        from ..backends.localruntime.health import wait_healthy

        report = wait_healthy(
            used,
            str(self.agent.pk),
            str(instance_id),
            tries=conf.get().health_tries,
            interval=conf.get().health_interval_seconds,
            on_line=run.log,
            cancelled=run.lease_watch(),
        )
        if not report.healthy:
            raise deploying.unhealthy(report)
        card: dict[str, Any] = run.masker.mask_all(results.card_of(report.card))
        return card
