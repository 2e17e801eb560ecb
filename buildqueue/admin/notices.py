"""Notices: what was told to whom, what could not be, and the verb to send it again.

A destination is shown by its name alone: its address and secret stand in the settings and
in no row.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Notice
from ..queue import outbox
from ..queue.outcomes import Actor
from ..states import NoticeStatus
from . import display, moments
from .acts import Act, ActingAdmin, says

LOOKS = {NoticeStatus.SENT: "done"}  # the badge of a status that has none of its own


def _why_not_resend(notice: Notice) -> str:
    if notice.status == NoticeStatus.PENDING:
        return _("it waits to be sent already")
    return ""


def _resend(notice: Notice, actor: Actor, reason: str) -> None:
    outbox.resend(notice.pk, actor=actor, reason=reason)


NOTICE_ACTS = (
    Act(
        name="resend",
        label=gettext_lazy("Send again"),
        action_label=gettext_lazy("Send selected notices again"),
        effect=gettext_lazy(
            "The notice is sent again with the same id, by which a receiver that has it "
            "knows it."
        ),
        permission="buildqueue.change_notice",
        call=_resend,
        why_not=_why_not_resend,
        needs_reason=False,
        told=says(gettext_lazy("The notice is sent again within seconds.")),
    ),
)


@admin.register(Notice)
class NoticeAdmin(ActingAdmin):
    """Notices, newest first."""

    acts = NOTICE_ACTS
    change_form_template = "admin/buildqueue/related_change_form.html"
    list_display = (
        "event",
        "destination",
        "job_link",
        "state",
        "tries",
        "created",
        "when",
        "error",
    )
    list_filter = ("status",)
    allowed_lookups = frozenset({"status__exact"})
    ordering = ("-created_at", "-id")
    search_fields = ("job_id", "destination__startswith")
    fields = (*list_display, "said")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Notice]:
        """Read no body for a list."""
        notices: QuerySet[Notice] = super().get_queryset(request)
        return notices.defer("body")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the button."""
        notice = kwargs.get("obj")
        if isinstance(notice, Notice):
            context["buttons"] = self.buttons(request, notice)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Job"))
    def job_link(self, notice: Notice) -> display.Shown:
        """The job it tells of; the link asks the job's page for permission."""
        if notice.job_id is None:
            return display.NOTHING
        address = self.admin_url("buildjob_change", notice.job_id)
        return display.link(address, display.short(notice.job_id))

    @admin.display(description=gettext_lazy("Status"))
    def state(self, notice: Notice) -> display.Shown:
        """Icon and word."""
        status = NoticeStatus(notice.status)
        return display.badge(LOOKS.get(status, status), status.label)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, notice: Notice) -> display.Shown:
        """How long ago it happened."""
        return moments.ago(notice.created_at)

    @admin.display(description=gettext_lazy("Sent or due"))
    def when(self, notice: Notice) -> display.Shown:
        """When it was sent, or will be tried; nothing for one that was given up."""
        if notice.status == NoticeStatus.FAILED:
            return display.NOTHING
        return moments.ago(notice.sent_at or notice.due_at)

    @admin.display(description=gettext_lazy("Last error"))
    def error(self, notice: Notice) -> display.Shown:
        """Why the last try was not taken."""
        return notice.error_msg or display.NOTHING

    @admin.display(description=gettext_lazy("What it says"))
    def said(self, notice: Notice) -> display.Shown:
        """The body as it is sent."""
        return format_html('<pre class="bq-pre">{}</pre>', display.pretty(notice.body))
