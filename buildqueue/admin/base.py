"""What do all pages of the control room share? They show, and change nothing.

Read-only by permission, superusers included: rows change by verbs. Only lookups that
are named here reach the database, so a list's address cannot be used to guess what a
column holds that its reader may not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from . import display, forbidding
from .changelist import QuietChangeList
from .paginator import CappedPaginator

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(_ModelAdmin):
    """A list and pages to look at."""

    list_per_page = 50
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    paginator = CappedPaginator
    view_on_site = False
    empty_value_display = display.NOTHING
    # The parameters that the list's address may carry; anything else is refused.
    allowed_lookups: ClassVar[frozenset[str]] = frozenset()
    # What a program has printed: shown to who may see logs.
    printed: ClassVar[frozenset[str]] = frozenset()

    class Media:
        css = {"all": ["buildqueue/admin.css"]}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that tells a number only of what was searched."""
        return QuietChangeList

    @forbidding.naming
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list to who may see it."""
        self.demand_view(request)
        return super().changelist_view(request, extra_context)

    @forbidding.naming
    def change_view(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show a row's page to who may see it."""
        self.demand_view(request)
        return super().change_view(request, *args, **kwargs)

    def demand_view(self, request: HttpRequest) -> None:
        """Refuse who may not see these rows."""
        if not self.has_view_permission(request):
            name = f"{self.opts.app_label}.view_{self.opts.model_name}"
            raise forbidding.Lacking(name)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave out what was printed for who may not see logs."""
        found = super().get_fieldsets(request, obj)
        if request.user.has_perm("buildqueue.view_log"):
            return found
        hidden = self.printed
        kept = [
            (title, part | {"fields": [f for f in part["fields"] if f not in hidden]})
            for title, part in found
        ]
        return [(title, part) for title, part in kept if part["fields"]]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are made by the queue, not by a form."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are changed by verbs, not by a form."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows leave by retention, or by a verb that keeps their history."""
        return False

    def lookup_allowed(
        self, lookup: str, value: str, request: HttpRequest | None = None
    ) -> bool:
        """Tell whether the list may be filtered by this parameter."""
        # PostgreSQL takes no NUL: refused like an unknown parameter, not a crash.
        return lookup in self.allowed_lookups and "\0" not in str(value)

    def page_of(self, row: Model | None, request: HttpRequest) -> str:
        """Return the address of a row's page, empty when it may not be seen."""
        if row is None:
            return ""
        opts = row._meta
        allowed = f"{opts.app_label}.view_{opts.model_name}"
        if not request.user.has_perm(allowed):
            return ""
        return self.admin_url(f"{opts.model_name}_change", row.pk)

    def admin_url(self, name: str, *args: Any) -> str:
        """Return an address of this app in the admin site that shows this page."""
        return reverse(
            f"admin:buildqueue_{name}", args=args, current_app=self.admin_site.name
        )
