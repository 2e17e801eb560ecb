"""Which jobs end a connector's processes? One for each host that may have some.

Asked for again while one is open, the open one is the answer. Their serial key is the
connector's, so they wait until the process of a cancelled build is dead.
"""

from __future__ import annotations

from ...models import BuildJob, McpConnector, McpConnectorBuild
from ...queue import database, logs, transitions
from ...queue.enqueueing import enqueue
from ...queue.outcomes import Actor
from ...states import EventKind
from .. import hosts
from ..payloads import ConnectorDelete, ConnectorEnd
from ..removal import REMOVAL_ATTEMPTS


def serial_key(connector: McpConnector) -> str:
    """Return the key under which all jobs of a connector run one after the other."""
    return f"connector:{connector.pk}"


def artifacts(connector: McpConnector) -> list[str]:
    """Return the references of everything that was built for the connector."""
    builds = McpConnectorBuild.objects.using(database.alias())
    images = builds.filter(connector=connector).values_list("image_tag", flat=True)
    return sorted({image for image in images if image})


def hosts_of(connector: McpConnector) -> list[str]:
    """Return every host that may have a process of the connector or a bundle of it."""
    builds = McpConnectorBuild.objects.using(database.alias())
    built_on = builds.filter(connector=connector).values_list("host", flat=True)
    return sorted({host for host in (connector.host, *built_on) if host})


def request(
    connector: McpConnector,
    payload: ConnectorDelete,
    *,
    actor: Actor | None = None,
    reason: str = "",
) -> list[BuildJob]:
    """Ask every host that may have something of it to remove that."""
    asked = [host for host in hosts_of(connector) if not hosts.is_gone(host)]
    return [_ask(connector, payload, host, actor, reason) for host in asked]


def request_end(connector: McpConnector, payload: ConnectorEnd, *, host: str) -> None:
    """Ask for what an ended job may have left running on a host."""
    if not hosts.is_gone(host):
        _ask(connector, payload, host, None, "")


def _ask(
    connector: McpConnector,
    payload: ConnectorDelete | ConnectorEnd,
    host: str,
    actor: Actor | None,
    reason: str,
) -> BuildJob:
    job = enqueue(
        payload,
        owner_id=(actor.id if actor else "") or connector.owner_id or "",
        connector_id=connector.pk,
        serial_key=serial_key(connector),
        dedupe_key=f"{payload.kind}:{connector.pk}:{host}",
        on_duplicate="return",
        requires=hosts.capability(host),
        max_attempts=REMOVAL_ATTEMPTS,
        actor=actor,
    )
    if reason:
        transitions.record(job, EventKind.NOTE, title=logs.storable(reason[:200]))
    return job
