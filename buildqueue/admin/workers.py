"""Workers: who serves which queues, how busy, and whether it still reports."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import clock
from ..models import Worker
from ..queue import stats
from ..states import WorkerStatus
from . import display, moments, why
from .base import ReadOnlyAdmin

ALIVE = (WorkerStatus.RUNNING, WorkerStatus.DRAINING)


def is_silent(worker: Worker) -> bool:
    """Tell whether a worker counts itself as running and does not report."""
    silent = stats.silent_since(worker, clock.now(), after=why.silence())
    return worker.status in ALIVE and silent


def state_of(worker: Worker) -> display.Shown:
    """Return a worker's status; doubt is shown as doubt."""
    if is_silent(worker):
        return display.badge("silent", _("silent, possibly gone"))
    return display.badge(worker.status, worker.get_status_display())


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Workers, the latest report first."""

    list_display = (
        "name",
        "state",
        "used",
        "served",
        "version",
        "kind",
        "heartbeat",
        "started",
    )
    list_filter = ("status",)
    allowed_lookups = frozenset({"status__exact"})
    ordering = ("-heartbeat_at", "-id")
    search_fields = ("host__startswith",)
    fields = (
        "name",
        "state",
        "used",
        "served",
        "capabilities",
        "version",
        "kind",
        "direct",
        "heartbeat",
        "started",
        "stopped_at",
        "jobs_link",
    )
    readonly_fields = fields

    @admin.display(description=gettext_lazy("Worker"))
    def name(self, worker: Worker) -> str:
        """Host and process."""
        return str(worker)

    @admin.display(description=gettext_lazy("Status"))
    def state(self, worker: Worker) -> display.Shown:
        """Icon and word."""
        return state_of(worker)

    @admin.display(description=gettext_lazy("Busy slots"))
    def used(self, worker: Worker) -> str:
        """Busy of all."""
        return f"{worker.busy}/{worker.slots}"

    @admin.display(description=gettext_lazy("Queues"))
    def served(self, worker: Worker) -> str:
        """The queues it serves."""
        return ", ".join(worker.queues) or _("all")

    @admin.display(description=gettext_lazy("Last report"))
    def heartbeat(self, worker: Worker) -> display.Shown:
        """How long ago it reported."""
        return moments.ago(worker.heartbeat_at)

    @admin.display(description=gettext_lazy("Started"))
    def started(self, worker: Worker) -> display.Shown:
        """How long ago it started."""
        return moments.ago(worker.started_at)

    @admin.display(description=gettext_lazy("Jobs"))
    def jobs_link(self, worker: Worker) -> display.Shown:
        """The list of what it runs now."""
        address = f"{self.admin_url('buildjob_changelist')}?q=worker:{worker.pk}"
        return display.link(address, _("What it runs now"))
