"""How is a connector deleted? By a mark on its row, and a job on each of its hosts.

From the mark's commit on nothing new can be asked for, open jobs are cancelled in the
same transaction, and the name is free again; the processes follow as soon as the host's
worker gets to it. It can be asked for again at any time.
"""

from __future__ import annotations

from django.db.models.functions import Now

from ...models import BuildJob, McpConnector
from ...queue import database, verbs
from ...queue.outcomes import Actor
from .. import hosts
from ..lifecycle import connectorhealth, connectorrows
from ..payloads import ConnectorDelete
from . import removal

DELETE = ConnectorDelete.model_fields["kind"].default


def delete_connector(
    connector: McpConnector, *, actor: Actor, reason: str = ""
) -> list[BuildJob]:
    """Delete the connector, cancel what is open for it, and have its processes ended.

    Returns the jobs that end them; none when it never got to a host of ours.
    """
    with database.atomic():
        # Jobs before the connector, as everywhere: one that is just ending comes first.
        _lock_open_jobs(connector)
        found = connectorrows.lock_connector(connector.pk)
        if found is None:
            return []
        if found.deleted_at is None:
            connectorrows.update(found, deleted_at=Now(), is_active=False)
            found.refresh_from_db(using=database.alias())
        # Before the others are cancelled: their end asks for the same, without a reason.
        payload = ConnectorDelete(connector_id=connector.pk)
        jobs = removal.request(found, payload, actor=actor, reason=reason)
        for job in _lock_open_jobs(connector):
            verbs.cancel(
                job.pk, actor=actor, reason=reason or "the connector was deleted"
            )
        if found.host is not None and hosts.is_gone(found.host):
            connectorhealth.write_off(found)
        return jobs


def _lock_open_jobs(connector: McpConnector) -> list[BuildJob]:
    jobs = BuildJob.objects.using(database.alias()).filter(connector_id=connector.pk)
    ending = jobs.filter(completed_at__isnull=True).exclude(kind=DELETE)
    return list(ending.select_for_update(no_key=True).order_by("pk"))
