"""How is the queue doing, and what needs a person? One snapshot, one page.

Every number is a link to the list of exactly those jobs. The number of queries does not
depend on how many jobs there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _

from ..models import BuildJob, Overview, Worker
from ..queue import database, stats
from ..states import JobStatus
from . import display, forbidding, moments, waiting, why, workers
from .base import ReadOnlyAdmin

MOST_RUNNING = 20
MOST_FAILURES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """How many jobs have a status."""

    status: str
    number: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """A job, the address of its page, and where it runs."""

    job: BuildJob
    address: str
    worker: Worker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWorker:
    """A worker, its page, and its status with any doubt."""

    worker: Worker
    address: str
    state: Any


@admin.register(Overview)
class OverviewAdmin(ReadOnlyAdmin):
    """The queue at a glance."""

    def get_urls(self) -> list[Any]:
        """Serve the one page; there is nothing to open, add or delete."""
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="buildqueue_overview_changelist")]

    @forbidding.naming
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the numbers."""
        self.demand_view(request)
        snapshot = stats.snapshot(failures=MOST_FAILURES)
        reporting = [w for w in snapshot.workers if not workers.is_silent(w)]
        oldest = snapshot.oldest_waiting
        context = {
            **self.admin_site.each_context(request),
            "title": _("Overview"),
            "opts": self.opts,
            "media": self.media,
            "for_you": waiting.for_you(
                self, request, snapshot.counts[JobStatus.WAITING_INPUT]
            ),
            "tiles": self._tiles(request, snapshot.counts),
            "warning": "" if reporting else why.nobody_reports(),
            "oldest": oldest and self._shown(request, oldest),
            "oldest_age": oldest and moments.between(oldest.due_at, None),
            "workers": [self._shown_worker(request, w) for w in snapshot.workers],
            "busy": sum(worker.busy for worker in reporting),
            "slots": sum(worker.slots for worker in reporting),
            "running": self._running(request, snapshot.workers),
            "failures": [self._shown(request, job) for job in snapshot.last_failures],
            "failures_url": self._list_url(request, status=JobStatus.FAILED),
            "database_time": snapshot.database_time,
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        template = "admin/buildqueue/overview/change_list.html"
        return TemplateResponse(request, template, context)

    def _tiles(self, request: HttpRequest, counts: dict[str, int]) -> list[Tile]:
        return [
            Tile(
                status=status,
                number=display.capped(counts[status], stats.COUNT_CAP),
                address=self._list_url(request, status=status),
            )
            for status in JobStatus.values
        ]

    def _running(self, request: HttpRequest, live: list[Worker]) -> list[ShownJob]:
        by_id = {worker.pk: worker for worker in live}
        jobs = BuildJob.objects.using(database.alias()).select_related(
            "agent", "connector"
        )
        longest = jobs.filter(status=JobStatus.IN_PROGRESS).order_by("picked_at")
        return [
            self._shown(request, job, by_id.get(job.worker) if job.worker else None)
            for job in longest[:MOST_RUNNING]
        ]

    def _shown(
        self, request: HttpRequest, job: BuildJob, worker: Worker | None = None
    ) -> ShownJob:
        return ShownJob(job=job, address=self.page_of(job, request), worker=worker)

    def _shown_worker(self, request: HttpRequest, worker: Worker) -> ShownWorker:
        return ShownWorker(
            worker=worker,
            address=self.page_of(worker, request),
            state=workers.state_of(worker),
        )

    def _list_url(self, request: HttpRequest, **filters: str) -> str:
        if not request.user.has_perm("buildqueue.view_buildjob"):
            return ""
        return f"{self.admin_url('buildjob_changelist')}?{urlencode(filters)}"
