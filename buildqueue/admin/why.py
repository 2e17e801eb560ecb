"""Why is a job where it is? One sentence from what the database knows now.

Read only, and only for people: the engine decides by its own queries. At most three
small ones are asked, and only for a job that waits.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.utils.html import format_html
from django.utils.translation import gettext as _

from .. import clock, conf
from ..models import BuildJob, JobRun, Worker
from ..queue import database, stats
from ..states import JobStatus
from . import display, moments


def why(job: BuildJob) -> display.Shown:
    """Return the sentence; empty when the status says all."""
    match job.status:
        case JobStatus.PENDING:
            return _why_pending(job)
        case JobStatus.SCHEDULED:
            length = moments.between_now_and(job.due_at)
            return _("It is due in %(span)s; until then nobody takes it.") % {
                "span": length
            }
        case JobStatus.IN_PROGRESS:
            return _why_running(job)
        case JobStatus.WAITING_INPUT:
            return _("It waits for a person's answer, and holds no slot.")
        case JobStatus.WAITING_APPROVAL:
            return _("It waits for a person's approval, and holds no slot.")
        case JobStatus.WAITING_CHILDREN:
            return _("It waits for the jobs that it started, and holds no slot.")
        case JobStatus.PAUSED:
            return _("An operator holds it back.")
    return ""


def _why_pending(job: BuildJob) -> display.Shown:
    if job.due_at > clock.now():
        length = moments.between_now_and(job.due_at)
        return _("It is due in %(span)s.") % {"span": length}
    if job.held:
        return _("A limit of its queue or owner holds it back.")
    if job.serial_key and (holder := _holder_of(job.serial_key)):
        return _("Job %(job)s runs under the same key; one runs at a time.") % {
            "job": display.short(holder)
        }
    return _why_not_taken(job, reporting_workers())


def _why_not_taken(job: BuildJob, workers: list[Worker]) -> display.Shown:
    if not workers:
        return nobody_reports()
    serving = [each for each in workers if not each.queues or job.queue in each.queues]
    if not serving:
        return _("No worker serves the queue “%(queue)s”.") % {"queue": job.queue}
    able = [w for w in serving if not job.requires or job.requires in w.capabilities]
    if not able:
        return _("No worker has what it requires: %(what)s.") % {"what": job.requires}
    if all(worker.busy >= worker.slots for worker in able):
        return _("All slots are busy; it is taken when one is free.")
    return _("A worker with a free slot takes it next.")


def _why_running(job: BuildJob) -> str:
    if job.lease_until and job.lease_until < clock.now():
        length = moments.between(job.lease_until, None)
        return _("Its lease ended %(span)s ago: it is rescued soon.") % {"span": length}
    return ""


def _holder_of(key: str) -> UUID | None:
    runs = JobRun.objects.using(database.alias())
    run = runs.filter(serial_key=key, ended_at__isnull=True).first()
    return run.job_id if run else None


def silence() -> timedelta:
    """Return how long a worker may be silent before it is doubted."""
    return timedelta(seconds=conf.get().lease_seconds)


def reporting_workers() -> list[Worker]:
    """Return the workers that have reported lately."""
    moment = clock.now()
    return [
        worker
        for worker in stats.live_workers()
        if not stats.silent_since(worker, moment, after=silence())
    ]


def nobody_reports() -> display.Shown:
    """Say that nobody works, and what to do."""
    told = _(
        "No worker has reported for {seconds} s. Jobs will wait. Start one with {how}."
    )
    how = display.code("manage.py runworker")
    return format_html(told, seconds=f"{silence().total_seconds():.0f}", how=how)
