"""How does an artifact come behind its target's address? Beside what runs, then healthy,
then switched.

Until the switch the old instance answers, whatever happens. An instance that a killed
attempt has started is found again and gone on with; one that does not become healthy is
ended and its output told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from ..exceptions import Rejected
from . import host
from .base import Run

if TYPE_CHECKING:
    from ..backends.base import InstanceStatus, Runtime, WorkloadSpec
    from ..backends.localruntime.health import HealthReport

LOG_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An instance on its way behind the address, as its target sees it."""

    spec_of: Callable[[UUID], WorkloadSpec]  # of the instance of that id
    begin: Callable[[WorkloadSpec], None]  # writes that it is begun
    is_begun: Callable[[UUID], bool]  # whether it is, still
    ask: Callable[[UUID], Any]  # returns what it says of itself once it is healthy
    give_up: Callable[[UUID, str, str], None]  # writes why it came to nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """An instance behind its target's address."""

    instance_id: UUID
    address: str
    said: Any  # what `ask` returned


def deploy(run: Run, used: Runtime, candidate: Candidate) -> Live:
    """Start, wait until it is healthy, and switch; Rejected when it is not."""
    instance_id = _start(run, used, candidate)
    with run.ended_unless_healthy(used, instance_id):
        with run.phase(
            "health", valid=lambda result: _is_of(result, instance_id)
        ) as step:
            if not step.done:
                said = _asked(run, used, candidate, instance_id)
                step.result = {"instance": str(instance_id), "said": said}
        run.ctx.check_lease()
    address = _promote(run, used, instance_id)
    return Live(instance_id=instance_id, address=address, said=step.result["said"])


def _start(run: Run, used: Runtime, candidate: Candidate) -> UUID:
    def is_up(result: dict[str, str]) -> bool:
        instance = UUID(result["instance"])
        return (
            result["host"] == host.host_id()
            and candidate.is_begun(instance)
            and _is_alive(_seen(run, used, instance))
        )

    with run.phase("deploy", valid=is_up) as step:
        if not step.done:
            instance = uuid5(run.ctx.lease_id, "deployment")
            spec = candidate.spec_of(instance)
            candidate.begin(spec)
            with run.ended_unless_healthy(used, instance):
                started = used.start(spec)
            run.log(f"instance {instance} is started, confined by {started.confined}")
            step.result = {"instance": str(instance), "host": host.host_id()}
    return UUID(step.result["instance"])


def _asked(run: Run, used: Runtime, candidate: Candidate, instance_id: UUID) -> Any:
    try:
        return candidate.ask(instance_id)
    except Rejected as error:
        lines = used.logs(str(run.target_id), str(instance_id), LOG_LINES)
        text = run.masker.mask("\n".join(lines))
        for line in text.splitlines():
            run.log(line)
        candidate.give_up(instance_id, run.masker.mask(str(error)), text)
        raise


def unhealthy(report: HealthReport) -> Rejected:
    """Return why an instance is not healthy: it has ended, or does not answer."""
    stays = report.code == "health_timeout"
    how = "is not healthy" if stays else "does not stay up"
    return Rejected(
        report.code or "health_timeout",
        f"the new instance {how}: {report.reason}",
        exit_code=report.exit_code,
    )


def _promote(run: Run, used: Runtime, instance_id: UUID) -> str:
    """Lead the address to the new instance and return it."""

    def leads_there(result: dict[str, str]) -> bool:
        workload = used.status(str(run.target_id))
        if workload is None or workload.active != str(instance_id):
            return False
        # An address that was taken by another program meanwhile is a new one.
        return _is_of(result, instance_id) and workload.address == result["address"]

    with run.phase("activate", valid=leads_there) as step:
        if not step.done:
            workload = used.promote(str(run.target_id), str(instance_id))
            if workload.address is None:
                raise Rejected("no_address", "the runtime gave it no address")
            run.log(f"it answers at {workload.address}")
            step.result = {"instance": str(instance_id), "address": workload.address}
    return str(step.result["address"])


def _is_of(result: dict[str, Any], instance_id: UUID) -> bool:
    return bool(result["instance"] == str(instance_id))


def _seen(run: Run, used: Runtime, instance_id: UUID) -> InstanceStatus | None:
    workload = used.status(str(run.target_id))
    instances = workload.instances if workload else ()
    return next((one for one in instances if one.instance_id == str(instance_id)), None)


def _is_alive(seen: InstanceStatus | None) -> bool:
    return seen is not None and seen.state in ("starting", "running")
