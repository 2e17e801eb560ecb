"""How is a verb confirmed before it is applied?

The page says of each row what will happen, or why it is left out, and asks for the
reason that its history keeps, and for what else the act wants. Looking at it changes
nothing. A decision carries along what was seen, so that one on something else by now is
refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy

from ..exceptions import BuildQueueError, Refused
from ..queue.outcomes import Actor
from . import applying

if TYPE_CHECKING:
    from .acts import Act, ActingAdmin

LONGEST_REASON = 1000  # as the API has it
OWN_PAGE, HOME_PAGE = "page", "home"  # of the row that an act was asked for on
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class ActForm(forms.Form):
    """What an act asks for: its own fields, and why."""

    seen = forms.CharField(required=False, widget=forms.HiddenInput)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=LONGEST_REASON,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
        help_text=gettext_lazy("Kept in its history, beside your name."),
        error_messages={"required": gettext_lazy("Say why: its history keeps it.")},
    )

    def __init__(
        self, act: Act, rows: Sequence[Any], posted: QueryDict | None = None
    ) -> None:
        super().__init__(posted)
        self.act = act
        asked = act.fields(rows) if act.fields else {}
        self.keys = {name: _key(name) for name in asked}
        own = {self.keys[name]: field for name, field in asked.items()}
        self.fields = {**own, **self.fields}
        if act.seen is None:
            del self.fields["seen"]
        else:
            self.fields["seen"].initial = act.seen(rows[0])
        self.fields["reason"].required = act.needs_reason
        if not act.needs_reason:
            self.fields["reason"].label = gettext_lazy("Reason (optional)")

    def given(self) -> dict[str, Any]:
        """Return what the act's verb is given beside the actor and the reason."""
        found: dict[str, Any] = {}
        if self.act.fields:
            values = self.cleaned_data
            found["values"] = {name: values[key] for name, key in self.keys.items()}
        if self.act.seen:
            found["seen"] = self.cleaned_data["seen"]
        return found

    def blame(self, refusal: BuildQueueError) -> bool:
        """Tell at each field what the verb found wrong with it; false: with none."""
        faults = refusal.fields if isinstance(refusal, Refused) else {}
        named = {
            self.keys[name]: why for name, why in faults.items() if name in self.keys
        }
        for key, why in named.items():
            self.add_error(key, why)
        return bool(named)


def _key(name: str) -> str:
    """Return a name's own name in the form, apart from all others of the page."""
    if not _PLAIN.fullmatch(name):  # it becomes an id, and those have no spaces
        name = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return f"given-{name}"


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
    form: ActForm | None = None,
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
        "form": form or ActForm(act, rows),
        "row": rows[0] if rows else None,
        "rows": listed,
        "taken": taken,
        "left_out": len(listed) - len(taken),
        "cut_off": cut_off,
        "most": len(rows),
        "one": model_admin.opts.verbose_name,
        "many": model_admin.opts.verbose_name_plural,
        "back": _back(model_admin, request, rows),
        "origin": _origin(request),
        "filters": _filters(request),
        "may_payload": request.user.has_perm("buildqueue.view_payload"),
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "admin/buildqueue/confirm_act.html", context)


def answer(
    model_admin: ActingAdmin, request: HttpRequest, act: Act, rows: Sequence[Any]
) -> HttpResponse:
    """Apply the act to the rows and return to where it was asked for."""
    form = ActForm(act, rows, request.POST)
    if not form.is_valid():
        return page(model_admin, request, act, rows, form=form)
    reason = form.cleaned_data["reason"]
    actor = Actor(label=request.user.get_username(), id=str(request.user.pk))
    applied, refused = applying.apply(act, rows, actor, reason, form.given())
    if not applied and any(form.blame(refusal) for refusal in refused):
        return page(model_admin, request, act, rows, form=form)
    if applied:
        words = f"{act.label}: {reason}" if reason else str(act.label)
        flag = DELETION if act.removes else CHANGE
        LogEntry.objects.log_actions(actor.id, applied, flag, words)
    if len(applied) == 1 and not refused and act.told:
        told = act.told(model_admin, request, applied[0])
    else:
        told = applying.summary(act, applied, refused)
    messages.add_message(request, applying.level(applied, refused), told)
    gone = act.removes and len(applied) == 1
    return HttpResponseRedirect(_next(model_admin, request, [] if gone else rows))


def _origin(request: HttpRequest) -> str:
    """Return which page the act was asked for from; empty: the list."""
    asked = request.POST.get("from") or request.GET.get("from")
    return asked if asked in (OWN_PAGE, HOME_PAGE) else ""


def _filters(request: HttpRequest) -> str:
    """Return the query of the list that the act was asked for from."""
    if "filters" in request.POST:
        return QueryDict(request.POST["filters"]).urlencode()
    return "" if _origin(request) else request.GET.urlencode()


def _back(model_admin: ActingAdmin, request: HttpRequest, rows: Sequence[Any]) -> str:
    """Return the page that the act was asked for from."""
    if _origin(request) == OWN_PAGE and len(rows) == 1:
        own = model_admin.page_of(rows[0], request)
        return own or model_admin.home_of(rows[0], request)
    return _next(model_admin, request, rows)


def _next(model_admin: ActingAdmin, request: HttpRequest, rows: Sequence[Any]) -> str:
    """Return the page that shows what became of it."""
    if _origin(request) and len(rows) == 1:
        return model_admin.home_of(rows[0], request)
    filters = _filters(request)
    address = model_admin.admin_url(f"{model_admin.opts.model_name}_changelist")
    return f"{address}?{filters}" if filters else address
