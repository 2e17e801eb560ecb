"""What becomes of jobs that wait for a host that is gone? Others do them, or nobody.

The jobs of a target run in the order they were asked for, so one that nobody can take
would keep all later ones waiting. A build or a start is for whoever takes it now, and
fails there if it must. What only that host could do is cancelled: its processes are gone
with it, or are ended by its reconciliation should it come back. Each job is freed in a
transaction of its own; it may be repeated at any time.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from ..models import BuildJob
from ..queue import database, transitions, verbs, wakeups
from ..queue.outcomes import SYSTEM
from ..states import UNCLAIMED, EventKind
from . import hosts
from .lifecycle import connectorhealth, connectorrows, rows, stops
from .payloads import AgentDelete, AgentStart, AgentStop, ConnectorDelete

ANYWHERE = (*rows.BUILD_TAGS, AgentStart.model_fields["kind"].default)
ENDS_AGENT = tuple(
    payload.model_fields["kind"].default for payload in (AgentStop, AgentDelete)
)
ENDS_CONNECTOR = ConnectorDelete.model_fields["kind"].default
WHY = "the host that it waits for is gone"


def free() -> int:
    """Free the jobs that wait for hosts that are gone; return how many."""
    bound = _waiting().filter(requires__startswith=hosts.PREFIX).order_by()
    named = bound.values_list("requires", flat=True).distinct()
    known = [each for each in named if each]
    gone = [each for each in known if hosts.is_gone(hosts.named_by(each))]
    waiting = _waiting().filter(requires__in=gone).order_by("pk")
    return sum(_free(job_id, gone) for job_id in waiting.values_list("pk", flat=True))


def _free(job_id: UUID, gone: list[str]) -> bool:
    with database.atomic():
        locked = _waiting().select_for_update(no_key=True, skip_locked=True)
        job = locked.filter(pk=job_id, requires__in=gone).first()
        if job is None:
            return False  # claimed or ended meanwhile
        if job.kind in ANYWHERE:
            _waiting().filter(pk=job.pk).update(requires=None)
            transitions.record(job, EventKind.NOTE, title=WHY)
            wakeups.wake(job.queue)
        else:
            verbs.cancel(job.pk, actor=SYSTEM, reason=WHY)
            _write_off(job)
    return True


def _write_off(job: BuildJob) -> None:
    """Count what was to be ended there as ended."""
    if job.agent_id is not None and job.kind in ENDS_AGENT:
        if agent := rows.lock_agent(job.agent_id):
            stops.write_off_gone_hosts(agent)
    elif job.kind == ENDS_CONNECTOR:
        connector = connectorrows.lock_connector(job.connector_id)
        if connector and connector.host and hosts.is_gone(connector.host):
            connectorhealth.write_off(connector)


def _waiting() -> QuerySet[BuildJob]:
    jobs = BuildJob.objects.using(database.alias())
    # Whoever is bound to a host has a serial key: an index of open jobs knows them.
    serial = jobs.filter(completed_at__isnull=True, serial_key__isnull=False)
    return serial.filter(status__in=sorted(UNCLAIMED))
