"""What may an operator do to a row, and where is it offered?

An act is one verb as the control room offers it: as an action of the list, and as a
button of the page. Both lead to the same confirmation, which asks for a reason, and to
the same loop, so that neither has rules of its own. An act is offered only to who holds
its permission, and asked again when it is posted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext as _

from . import confirming, forbidding
from .base import ReadOnlyAdmin

MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One verb as it is offered.

    `call` is given a row, the actor and the reason; what its fields were given comes
    along as `values`, what a decision is bound to as `seen`, where the act has them.
    """

    name: str
    label: Any  # the button
    action_label: Any  # the list's action
    effect: Any  # what will happen to one row, as a sentence
    permission: str
    call: Callable[..., object]
    why_not: Callable[[Any], str]  # empty: the row's state allows it
    needs_reason: bool = True
    leads_to: str = ""  # the status that follows, where there is one
    fields: Callable[[Sequence[Any]], Mapping[str, forms.Field]] | None = None
    seen: Callable[[Any], str] | None = None
    shows: str = ""  # the template of what is decided on
    also: tuple[str, ...] = ()  # permissions to see what is decided on
    for_many: bool = True  # no: it is offered on pages alone, never on a list
    removes: bool = False  # the row is gone afterwards: it leads to the list
    # What is told when it was applied to one row; none: its label and the number.
    told: Callable[[ActingAdmin, HttpRequest, Any], Any] | None = None


def says(words: Any) -> Callable[[ActingAdmin, HttpRequest, Any], Any]:
    """Return what tells the same of whatever row."""
    return lambda _admin, _request, _row: words


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """An act as the page of one row offers it."""

    act: Act
    address: str
    why_not: str


def as_action(act: Act) -> Callable[..., HttpResponse]:
    """Return the list's action that leads to the act's confirmation."""

    @admin.action(description=act.action_label)
    def confirm(
        model_admin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse:
        rows = list(queryset[: MOST_AT_ONCE + 1])
        return confirming.page(
            model_admin,
            request,
            act,
            rows[:MOST_AT_ONCE],
            cut_off=len(rows) > MOST_AT_ONCE,
        )

    confirm.__name__ = act.name
    return confirm


class ActingAdmin(ReadOnlyAdmin):
    """A list and pages whose rows some verbs may be applied to."""

    acts: ClassVar[Sequence[Act]] = ()

    def __init__(self, model: Any, admin_site: Any) -> None:
        super().__init__(model, admin_site)
        self.actions = [as_action(act) for act in self.acts if act.for_many]

    def may(self, request: HttpRequest, name: str) -> bool:
        """Tell whether the user holds the permission of an act."""
        found = self._act(name)
        return found is not None and request.user.has_perms(
            [found.permission, *found.also]
        )

    def get_actions(
        self, request: HttpRequest, action_location: Any = None
    ) -> dict[str, Any]:
        """Offer on the list, of the acts, those that the user may do to many rows.

        The location came with Django 6.1.
        """
        where = {} if action_location is None else {"action_location": action_location}
        offered = super().get_actions(request, **where).items()
        ours = {act.name for act in self.acts}
        return {
            name: action
            for name, action in offered
            if name not in ours or self.may(request, name)
        }

    def home_of(self, row: Any, request: HttpRequest) -> str:
        """Return the address that an act on a row's page leads back to."""
        return self.admin_url(f"{self.opts.model_name}_change", row.pk)

    def buttons(
        self, request: HttpRequest, row: Any, origin: str = confirming.OWN_PAGE
    ) -> list[Button]:
        """Return what the user may do to a row, and why not now."""
        query = urlencode({"id": str(row.pk), "from": origin})
        return [
            Button(
                act=act,
                address=f"{self.act_url(act)}?{query}",
                why_not=act.why_not(row),
            )
            for act in self.acts
            if self.may(request, act.name)
        ]

    def act_url(self, act: Act) -> str:
        """Return the address of an act's confirmation."""
        return self.admin_url(f"{self.opts.model_name}_act", act.name)

    def get_urls(self) -> list[Any]:
        """Add the confirmation of acts."""
        view = self.admin_site.admin_view(self.act_view)
        name = f"buildqueue_{self.opts.model_name}_act"
        return [path("acts/<slug:name>/", view, name=name), *super().get_urls()]

    @forbidding.naming
    def act_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Ask, on GET, and apply, on POST, an act to the named rows."""
        act = self._act(name)
        if act is None:
            raise PermissionDenied
        forbidding.demand(request, act.permission, *act.also)
        self.demand_view(request)
        asked = request.POST if request.method == "POST" else request.GET
        ids = asked.getlist("id")[:MOST_AT_ONCE]
        try:
            rows = list(self.get_queryset(request).filter(pk__in=ids))
        except (ValidationError, ValueError):  # an id that is none
            rows = []
        if not rows or (len(rows) > 1 and not act.for_many):
            told = (
                _("This is done one at a time.") if rows else _("Nothing was selected.")
            )
            messages.warning(request, told)
            return HttpResponseRedirect(
                self.admin_url(f"{self.opts.model_name}_changelist")
            )
        if request.method == "POST":
            return confirming.answer(self, request, act, rows)
        return confirming.page(self, request, act, rows)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list; a posted id that is none is an answer, not a crash."""
        try:
            answer: HttpResponse = super().changelist_view(request, extra_context)
        except ValidationError:
            messages.error(request, _("What was selected is not in this list."))
            return HttpResponseRedirect(request.get_full_path())
        return answer

    def _act(self, name: str) -> Act | None:
        return next((act for act in self.acts if act.name == name), None)
