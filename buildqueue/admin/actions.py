"""The list and page of outside effects: what people are to decide, and what became of it.

What waits for a person comes first, and is all that the list shows unless asked for more:
two partial indexes hold exactly that. Content and receipts need the permission to see
payloads, and are masked like them.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import JobAction
from ..states import ActionStatus
from . import display, moments
from .actionacts import ACTION_ACTS
from .acts import ActingAdmin

FOR_PEOPLE = (ActionStatus.AWAITING_REVIEW, ActionStatus.OUTCOME_UNKNOWN)
LARGE = ("content", "receipt", "error_msg")
PEOPLE_FIRST = Case(
    *(When(status=status, then=Value(at)) for at, status in enumerate(FOR_PEOPLE)),
    default=Value(len(FOR_PEOPLE)),
    output_field=IntegerField(),
)


class ActionStatusFilter(admin.SimpleListFilter):
    """What waits for a person, unless one status or all are asked for."""

    title = gettext_lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer all, then each status."""
        return [("all", _("all")), *ActionStatus.choices]

    def choices(self, changelist: Any) -> Any:
        """Call the default by what it shows."""
        first, *rest = super().choices(changelist)
        return [{**first, "display": _("waiting for a person")}, *rest]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[JobAction]
    ) -> QuerySet[JobAction]:
        """Narrow the list."""
        value = self.value()
        if value in ActionStatus.values:
            return queryset.filter(status=value)
        return queryset if value else queryset.filter(status__in=FOR_PEOPLE)


@admin.register(JobAction)
class JobActionAdmin(ActingAdmin):
    """Outside effects, those that wait for a person first."""

    acts = ACTION_ACTS
    change_form_template = "admin/buildqueue/jobaction/change_form.html"
    list_display = ("name", "state", "of_job", "expiry", "decided", "proposed")
    list_filter = (ActionStatusFilter,)
    list_select_related = ("job",)
    allowed_lookups = frozenset({"status", "job"})
    ordering = (PEOPLE_FIRST, "-created_at", "-id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[JobAction]:
        """Return the actions with their jobs, without what may be large."""
        rows: QuerySet[JobAction] = super().get_queryset(request)
        kept = ("job__id", "job__kind", "job__status")
        narrow = [
            f.name for f in JobAction._meta.concrete_fields if f.name not in LARGE
        ]
        return rows.select_related("job").only(*narrow, *kept)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return an action for its page, whole."""
        found = super().get_object(request, object_id, from_field)
        if isinstance(found, JobAction):
            found.refresh_from_db(fields=LARGE)
        return found

    def home_of(self, row: Any, request: HttpRequest) -> str:
        """Return the page of the action's job, where all of it is seen."""
        return self.page_of(row.job, request) or super().home_of(row, request)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Show no form: the page's own section shows the action."""
        return []

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add what the page shows."""
        action = kwargs.get("obj")
        if isinstance(action, JobAction):
            context |= {
                "action": action,
                "buttons": [b for b in self.buttons(request, action) if not b.why_not],
                "job_url": self.page_of(action.job, request),
                "may_payload": request.user.has_perm("buildqueue.view_payload"),
            }
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Action"))
    def name(self, action: JobAction) -> str:
        """What it does, in the handler's words."""
        return action.title

    @admin.display(description=gettext_lazy("Status"))
    def state(self, action: JobAction) -> display.Shown:
        """Icon and word."""
        return display.action_badge(action.status)

    @admin.display(description=gettext_lazy("Job"))
    def of_job(self, action: JobAction) -> display.Shown:
        """The job that proposes it."""
        return str(action.job)

    @admin.display(description=gettext_lazy("Expires"))
    def expiry(self, action: JobAction) -> display.Shown:
        """Until when it may be decided."""
        waits = action.status == ActionStatus.AWAITING_REVIEW
        return moments.ago(action.expires_at if waits else None)

    @admin.display(description=gettext_lazy("Decided by"))
    def decided(self, action: JobAction) -> str:
        """Who decided."""
        return action.decided_by or display.NOTHING

    @admin.display(description=gettext_lazy("Proposed"))
    def proposed(self, action: JobAction) -> display.Shown:
        """How long ago it was proposed."""
        return moments.ago(action.created_at)
