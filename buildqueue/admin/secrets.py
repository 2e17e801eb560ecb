"""The secrets that owners have left: whose, by which name, since when. Never the value.

A new value is taken through a field that shows nothing; what is stored is read here by
no query. Should taking it fail, the report of the error has no values either, in which
mode ever the host runs.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy
from django.views.debug import SafeExceptionReporterFilter
from django.views.decorators.debug import (
    sensitive_post_parameters,
    sensitive_variables,
)

from ..models import OwnerSecret
from . import moments, people
from .acts import ActingAdmin
from .changelist import OwnedChangeList
from .domainacts import SECRET_ACTS


class NeverShowing(SafeExceptionReporterFilter):
    """Keeps values out of the report of an error in debug mode, too."""

    def is_active(self, request: HttpRequest | None) -> bool:
        """Hide, whatever the mode."""
        return True


@admin.register(OwnerSecret)
class OwnerSecretAdmin(ActingAdmin):
    """Secrets, those of one owner together."""

    acts = SECRET_ACTS
    change_form_template = "admin/buildqueue/related_change_form.html"
    list_display = ("name", "owner", "created", "changed")
    ordering = ("owner_id", "name")
    search_fields = ("name__startswith", "owner_id")
    fields = list_display
    readonly_fields = ("owner", "created", "changed")

    def get_queryset(self, request: HttpRequest) -> QuerySet[OwnerSecret]:
        """Leave the ciphertext in the database."""
        secrets: QuerySet[OwnerSecret] = super().get_queryset(request)
        return secrets.defer("encrypted_value")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that knows the owners' names."""
        return OwnedChangeList

    def act_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Ask and apply, with no value in the report of an error."""
        request.exception_reporter_filter = NeverShowing()
        view = sensitive_post_parameters()(super().act_view)
        answer: HttpResponse = sensitive_variables()(view)(request, name)
        return answer

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the buttons."""
        secret = kwargs.get("obj")
        if isinstance(secret, OwnerSecret):
            context["buttons"] = self.buttons(request, secret)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Owner"))
    def owner(self, secret: OwnerSecret) -> str:
        """Whose it is."""
        return people.owner_of(secret)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, secret: OwnerSecret) -> Any:
        """How long ago it was first set."""
        return moments.ago(secret.created_at)

    @admin.display(description=gettext_lazy("Set"))
    def changed(self, secret: OwnerSecret) -> Any:
        """How long ago its value was set."""
        return moments.ago(secret.updated_at)
