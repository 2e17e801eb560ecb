"""What does a job look like in a list? One method a column, none with a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import BuildJob
from ..states import JobStatus
from . import display, moments

if TYPE_CHECKING:

    class _Listed(BuildJob):
        """A job as the list's queryset annotates it."""

        worker_host: str | None

        class Meta:
            abstract = True

else:
    _Listed = BuildJob

COLUMNS = (
    "short_id",
    "state",
    "kind_name",
    "target",
    "lasted",
    "error",
    "queue_name",
    "tries",
    "on_worker",
    "created",
)


class JobColumns:
    """The columns of the list of jobs."""

    @admin.display(description=gettext_lazy("Job"))
    def short_id(self, job: BuildJob) -> display.Shown:
        """The letters that people tell it by; the list makes them a link."""
        return format_html(
            '<span class="bq-id" title="{}">{}</span>', job.pk, display.short(job.pk)
        )

    @admin.display(description=gettext_lazy("Kind"))
    def kind_name(self, job: BuildJob) -> display.Shown:
        """Which handler runs it."""
        return display.breakable(job.kind) if job.kind else _("(none)")

    @admin.display(description=gettext_lazy("Target"))
    def target(self, job: BuildJob) -> str:
        """The agent or connector it is for."""
        return str(job.agent or job.connector or display.NOTHING)

    @admin.display(description=gettext_lazy("Status"))
    def state(self, job: BuildJob) -> display.Shown:
        """Icon and word."""
        return display.job_badge(job.status)

    @admin.display(description=gettext_lazy("Queue"))
    def queue_name(self, job: BuildJob) -> display.Shown:
        """Which line it stands in, and its priority there unless that is 0."""
        if not job.priority:
            return job.queue
        title = _("priority %(n)d: the higher the sooner") % {"n": job.priority}
        return format_html(
            '{} <span title="{}">{}</span>', job.queue, title, f"{job.priority:+d}"
        )

    @admin.display(description=gettext_lazy("Tries"))
    def tries(self, job: BuildJob) -> display.Shown:
        """How many of the allowed tries are used up."""
        return display.tries(job)

    @admin.display(description=gettext_lazy("Worker"))
    def on_worker(self, job: _Listed) -> str:
        """The host that runs it now."""
        return job.worker_host or display.short(job.worker)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, job: BuildJob) -> display.Shown:
        """How long ago it was enqueued."""
        return moments.ago(job.created_at)

    @admin.display(description=gettext_lazy("Time"))
    def lasted(self, job: BuildJob) -> str:
        """How long it waits, runs, or took."""
        if job.status == JobStatus.SCHEDULED:
            return _("due in %s") % moments.about_between(None, job.due_at)
        if job.status == JobStatus.IN_PROGRESS:
            return _("runs %s") % moments.about_between(job.picked_at, None)
        if job.is_final:
            start = job.first_started_at or job.created_at
            return _("took %s") % moments.about_between(start, job.completed_at)
        return _("waits %s") % moments.about_between(job.due_at, None)

    @admin.display(description=gettext_lazy("Error"))
    def error(self, job: BuildJob) -> display.Shown:
        """The code of why it failed."""
        return display.code(display.breakable(job.error_code or ""))
