"""By what can the list of jobs be narrowed? Fixed choices: no query to offer them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from .. import clock
from ..models import BuildJob
from ..queue import handlers
from ..states import FINAL, OPEN, WAITING, JobStatus

GROUPS = {
    "open": (_("all open"), sorted(OPEN)),
    "waiting": (_("all waiting for something"), sorted(WAITING)),
    "ended": (_("all ended"), sorted(FINAL)),
}
WINDOWS = {
    "1h": (_("last hour"), timedelta(hours=1)),
    "24h": (_("last 24 hours"), timedelta(hours=24)),
    "7d": (_("last 7 days"), timedelta(days=7)),
    "30d": (_("last 30 days"), timedelta(days=30)),
}


class StatusFilter(admin.SimpleListFilter):
    """One status, or a group of them."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer the groups, then each status."""
        groups = [(name, words) for name, (words, _statuses) in GROUPS.items()]
        return [*groups, *JobStatus.choices]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[BuildJob]
    ) -> QuerySet[BuildJob]:
        """Narrow the list."""
        value = self.value()
        if value in GROUPS:
            return queryset.filter(status__in=GROUPS[value][1])
        if value in JobStatus.values:
            return queryset.filter(status=value)
        return queryset


class KindFilter(admin.SimpleListFilter):
    """A kind that is registered, under any of its names."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer the registered kinds."""
        return [(kind, kind) for kind in handlers.kinds()]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[BuildJob]
    ) -> QuerySet[BuildJob]:
        """Narrow the list."""
        value = self.value()
        if value in handlers.kinds():
            known = handlers.get(value)
            return queryset.filter(kind__in=[known.kind, *known.aliases])
        return queryset


class CreatedFilter(admin.SimpleListFilter):
    """How long ago it was enqueued."""

    title = _("time")
    parameter_name = "created"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer the windows."""
        return [(name, words) for name, (words, _length) in WINDOWS.items()]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[BuildJob]
    ) -> QuerySet[BuildJob]:
        """Narrow the list."""
        value = self.value()
        if value in WINDOWS:
            return queryset.filter(created_at__gte=clock.now() - WINDOWS[value][1])
        return queryset


class DeletedFilter(admin.SimpleListFilter):
    """Whether rows that were deleted are shown; they are not unless asked for."""

    title = _("deleted")
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer the deleted ones."""
        return [("yes", _("only deleted")), ("all", _("with deleted"))]

    def choices(self, changelist: Any) -> Any:
        """Call the default by what it shows."""
        first, *rest = super().choices(changelist)
        return [{**first, "display": _("not deleted")}, *rest]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Narrow the list."""
        match self.value():
            case "yes":
                return queryset.filter(deleted_at__isnull=False)
            case "all":
                return queryset
        return queryset.filter(deleted_at__isnull=True)
