"""The list and page of jobs, and the verbs an operator has.

Every column of the list costs one query for the whole page, its order is that of an
index, and its count stops. Who may do what is a permission each; whether a job's state
allows it is asked of `states.py` through the verb.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.utils.translation import gettext_lazy as _

from ..models import BuildJob, Worker
from . import forbidding, joblog, jobpage, search
from .acts import ActingAdmin
from .filters import CreatedFilter, KindFilter, StatusFilter
from .jobacts import JOB_ACTS
from .jobasking import ASKING_ACTS
from .jobcolumns import COLUMNS, JobColumns

MOST_OF_KEY = 40
WORKER_HOST = Subquery(Worker.objects.filter(pk=OuterRef("worker")).values("host"))


@admin.register(BuildJob)
class BuildJobAdmin(JobColumns, ActingAdmin):
    """Jobs, newest first."""

    acts = (*JOB_ACTS, *ASKING_ACTS)
    change_form_template = "admin/buildqueue/buildjob/change_form.html"
    list_display = COLUMNS
    list_filter = (StatusFilter, KindFilter, CreatedFilter)
    ordering = ("-created_at", "-id")
    search_fields = ("id",)
    search_help_text = _(
        "An id or its first letters, the beginning of an agent's name, or "
        "kind: queue: status: owner: agent: connector: worker: code: key:"
    )
    allowed_lookups = frozenset(
        {"status", "kind", "created", "agent", "connector", "parent"}
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[BuildJob]:
        """Return the jobs with their targets, without the columns that may be large."""
        jobs: QuerySet[BuildJob] = super().get_queryset(request)
        jobs = jobs.select_related("agent", "connector")
        return jobs.defer(*jobpage.LARGE).annotate(worker_host=WORKER_HOST)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[BuildJob], search_term: str
    ) -> tuple[QuerySet[BuildJob], bool]:
        """Search by what an index can answer; say so of a key that there is not."""
        for key in search.unknown_keys(search_term):
            told = _("“%(key)s:” is no key of this search; there are: %(known)s.")
            known = ", ".join(f"{each}:" for each in search.KNOWN)
            messages.warning(request, told % {"key": key[:MOST_OF_KEY], "known": known})
        return search.narrow(queryset, search_term), False

    def get_urls(self) -> list[Any]:
        """Add the log, live and raw."""
        view = self.admin_site.admin_view
        return [
            path("<uuid:pk>/log/", view(self.log_view), name="buildqueue_buildjob_log"),
            path(
                "<uuid:pk>/log/raw/",
                view(self.raw_log_view),
                name="buildqueue_buildjob_log_raw",
            ),
            *super().get_urls(),
        ]

    @forbidding.naming
    def log_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Answer what is new in the log."""
        return joblog.live(request, self._job_with_log(request, pk))

    @forbidding.naming
    def raw_log_view(self, request: HttpRequest, pk: UUID) -> Any:
        """Answer the whole log as a file."""
        return joblog.raw(self._job_with_log(request, pk))

    def _job_with_log(self, request: HttpRequest, pk: UUID) -> BuildJob:
        self.demand_view(request)
        forbidding.demand(request, "buildqueue.view_log")
        jobs = BuildJob.objects.select_related("progress")
        job = jobs.annotate(last_event=joblog.LAST_EVENT).filter(pk=pk).first()
        if job is None:
            raise Http404
        return job

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Show no form: the page's own sections show the job."""
        return []

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add what the page's sections show."""
        job = kwargs.get("obj")
        if isinstance(job, BuildJob):
            context |= jobpage.context_of(self, request, job)
        return super().render_change_form(request, context, *args, **kwargs)
