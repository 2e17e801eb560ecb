"""How is a verb confirmed before it is applied?

The page says of each row what will happen, or why it is left out, and asks for the
reason that its history keeps. Looking at it changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy

from ..queue.outcomes import Actor
from . import applying

if TYPE_CHECKING:
    from .acts import Act, ActingAdmin


class ReasonForm(forms.Form):
    """Why it is done."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=500,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
        help_text=gettext_lazy("Kept in its history, beside your name."),
        error_messages={"required": gettext_lazy("Say why: its history keeps it.")},
    )

    def __init__(self, *args: Any, required: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["reason"].required = required
        if not required:
            self.fields["reason"].label = gettext_lazy("Reason (optional)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the page."""

    row: Any
    address: str
    why_not: str


def page(
    model_admin: ActingAdmin,
    request: HttpRequest,
    act: Act,
    rows: Sequence[Any],
    *,
    form: ReasonForm | None = None,
    cut_off: bool = False,
) -> HttpResponse:
    """Return the page that asks."""
    listed = [
        Row(
            row=row, address=model_admin.page_of(row, request), why_not=act.why_not(row)
        )
        for row in rows
    ]
    taken = [each for each in listed if not each.why_not]
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"{act.label}: {rows[0]}" if len(rows) == 1 else act.action_label,
        "opts": model_admin.opts,
        "media": model_admin.media,
        "act": act,
        "act_url": model_admin.act_url(act),
        "form": form or ReasonForm(required=act.needs_reason),
        "rows": listed,
        "taken": taken,
        "left_out": len(listed) - len(taken),
        "cut_off": cut_off,
        "most": len(rows),
        "one": model_admin.opts.verbose_name,
        "many": model_admin.opts.verbose_name_plural,
        "back": _back(model_admin, request),
        "came_from_page": _came_from_page(request),
        "filters": _filters(request),
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "admin/buildqueue/confirm_act.html", context)


def answer(
    model_admin: ActingAdmin, request: HttpRequest, act: Act, rows: Sequence[Any]
) -> HttpResponse:
    """Apply the act to the rows and return to where it was asked for."""
    form = ReasonForm(request.POST, required=act.needs_reason)
    if not form.is_valid():
        return page(model_admin, request, act, rows, form=form)
    reason = form.cleaned_data["reason"]
    actor = Actor(label=request.user.get_username(), id=str(request.user.pk))
    applied, refused = applying.apply(act, rows, actor, reason)
    if applied:
        words = f"{act.label}: {reason}" if reason else str(act.label)
        LogEntry.objects.log_actions(actor.id, applied, CHANGE, words)
    messages.add_message(
        request,
        applying.level(applied, refused),
        applying.summary(act, applied, refused),
    )
    return HttpResponseRedirect(_back(model_admin, request))


def _came_from_page(request: HttpRequest) -> bool:
    return "page" in (request.GET.get("from"), request.POST.get("from"))


def _filters(request: HttpRequest) -> str:
    """Return the query of the list that the act was asked for from."""
    if "filters" in request.POST:
        return QueryDict(request.POST["filters"]).urlencode()
    return "" if _came_from_page(request) else request.GET.urlencode()


def _back(model_admin: ActingAdmin, request: HttpRequest) -> str:
    model = model_admin.opts.model_name
    asked = request.POST if request.method == "POST" else request.GET
    ids = asked.getlist("id")
    if _came_from_page(request) and len(ids) == 1:
        return model_admin.admin_url(f"{model}_change", ids[0])
    filters = _filters(request)
    address = model_admin.admin_url(f"{model}_changelist")
    return f"{address}?{filters}" if filters else address
