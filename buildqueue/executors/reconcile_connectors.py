"""Does this host run the connectors that the database says, and are they where it says?

A part of the host's reconciliation. The database's instance is led to again where the
address leads elsewhere; where that one cannot be had any more, what answers is taken for
it. A stored URL that is not the runtime's is corrected.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from ..backends.masking import Masker
from ..builds.connectors import deployed
from ..builds.connectors.deployed import KnownConnector
from ..builds.lifecycle import connectorhealth
from ..exceptions import Rejected
from ..models import McpConnector
from . import base, connectors, host, seeing
from .counting import CRASHES_TO_TELL, LOG_LINES, RESTORE_SECONDS, RESTORE_TRIES, Counts

if TYPE_CHECKING:
    from ..backends.base import InstanceStatus, Runtime, WorkloadStatus

logger = logging.getLogger(__name__)


def settle(
    runtime: Runtime, workload: WorkloadStatus, known: KnownConnector, counts: Counts
) -> None:
    """Make the workload what the database says of the connector."""
    if known.busy:
        return
    instance = _instance_for(runtime, workload, known, counts)
    if instance is not None and workload.address is not None:
        counts.corrected += connectorhealth.correct(
            known.connector,
            url=connectors.endpoint(workload.address),
            instance_id=instance,
            host=host.host_id(),
        )
    for one in workload.instances:
        if one.instance_id != str(instance):
            counts.ended += _end(runtime, workload, one)
        elif known.connector.instance_id == instance:
            _tell_crashes(runtime, known.connector, one, counts)


def tell_lost(present: Collection[UUID]) -> int:
    """Tell of connectors that should run here and that the runtime has never seen."""
    wanted = deployed.on_host(host.host_id())
    lost = [one for one in wanted if one.pk not in present and one.crash_reason is None]
    reason = "its host no longer has it; upload the connector again"
    return sum(
        connectorhealth.mark_crashed(one, reason=reason, logs="") for one in lost
    )


def _instance_for(
    runtime: Runtime, workload: WorkloadStatus, known: KnownConnector, counts: Counts
) -> UUID | None:
    """Return the instance that the address shall lead to, and leads to by now."""
    answering = _answering(workload)
    if known.wanted is None:
        never_told = known.connector.instance_id is None and known.connector.url
        return answering if never_told else None
    sealed_off = seeing.is_sealed_off(workload)
    if workload.active == str(known.wanted) and not sealed_off:
        return known.wanted
    try:
        _restore(runtime, known.connector, known.wanted)
    except Rejected as error:
        logger.warning(
            "connector not restored",
            extra={"connector": str(known.connector.pk), "reason": str(error)},
        )
        return answering
    counts.restored += 1
    return known.wanted


def _answering(workload: WorkloadStatus) -> UUID | None:
    active = seeing.active_of(workload)
    if active is None or active.state != "running":
        return None
    try:
        return UUID(active.instance_id)
    except ValueError:
        return None


def _restore(runtime: Runtime, connector: McpConnector, instance_id: UUID) -> None:
    """Lead the address to the connector's instance, started again if need be.

    Needed when an attempt died between its switch and its commit and was not repeated.
    """
    from ..backends.mcpprobe import wait_ready

    workload_id = str(connector.pk)
    env = connectors.environment_of(connector, {})
    masker = Masker(env.values())
    reference = connector.container_image_tag or ""
    runtime.start(connectors.workload(connector.pk, instance_id, reference, env))
    try:
        wait_ready(
            runtime,
            workload_id,
            str(instance_id),
            tries=RESTORE_TRIES,
            interval=RESTORE_SECONDS,
            on_line=lambda line: None,
            cancelled=lambda: False,
            mask=masker.mask,
        )
    except Rejected as error:
        runtime.stop_instance(workload_id, str(instance_id))
        raise base.masked_error(error, masker) from None
    runtime.promote(workload_id, str(instance_id))


def _end(runtime: Runtime, workload: WorkloadStatus, one: InstanceStatus) -> bool:
    if one.state not in ("starting", "running"):
        return False
    runtime.stop_instance(workload.workload_id, one.instance_id)
    return True


def _tell_crashes(
    runtime: Runtime, connector: McpConnector, one: InstanceStatus, counts: Counts
) -> None:
    grew = one.restarts > connector.restart_count
    if one.restarts != connector.restart_count:
        connectorhealth.note_restarts(connector, one.restarts)
    if connector.crash_reason is None:
        if one.restarts < CRASHES_TO_TELL or not (grew or one.pid is None):
            return
        lines = runtime.logs(str(connector.pk), one.instance_id, LOG_LINES)
        counts.crashed += connectorhealth.mark_crashed(
            connector,
            reason=f"restarted {one.restarts} times, last exit code {one.exit_code}",
            logs="\n".join(lines),
        )
    elif one.state == "running" and not grew:
        counts.recovered += connectorhealth.mark_recovered(connector)
