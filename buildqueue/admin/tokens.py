"""Tokens of the API: made here, shown once, revoked here.

Whoever may add tokens makes them for themselves; only a superuser makes one for
somebody else, since a token can do what its user can. The secret is in the answer to
the form and nowhere else: not in a message, not in the session, not in the database.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import clock, tokens
from ..models import ApiToken
from . import display, moments
from .acts import ActingAdmin
from .domainacts import TOKEN_ACTS

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[ApiToken]
else:
    _ModelForm = forms.ModelForm  # generic for the type checker alone


class TokenForm(_ModelForm):
    """Asks for what a new token needs."""

    def clean_expires_at(self) -> datetime | None:
        """Refuse a moment at which the token would be dead from birth."""
        moment: datetime | None = self.cleaned_data["expires_at"]
        if moment is not None and moment <= clock.now():
            raise ValidationError(_("Choose a moment that is still to come."))
        return moment


@admin.register(ApiToken)
class ApiTokenAdmin(ActingAdmin):
    """Tokens, newest first."""

    acts = TOKEN_ACTS
    form = TokenForm
    change_form_template = "admin/buildqueue/related_change_form.html"
    list_display = ("name", "prefix", "user", "state", "created_at", "last_used")
    list_select_related = ("user",)
    ordering = ("-created_at", "-id")
    search_fields = ("name__startswith", "prefix")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may make tokens."""
        return request.user.has_perm("buildqueue.add_apitoken")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        """Show everybody's to superusers, to others their own."""
        mine = super().get_queryset(request).select_related("user")
        if request.user.is_superuser:
            return mine
        return mine.filter(user_id=request.user.pk)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Ask for what a new token needs; show all of an old one."""
        if obj:
            return ["name", "prefix", "user", "state", "expires_at", "last_used"]
        own = ["name", "expires_at"]
        return ["user", *own] if request.user.is_superuser else own

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Show an old token, ask for a new one."""
        return ["prefix", "state", "last_used"] if obj else []

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Offer the reader as the token's user."""
        return {"user": request.user.pk}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the button, and save in one way only: the secret is shown right after."""
        token = kwargs.get("obj")
        if isinstance(token, ApiToken):
            context["buttons"] = self.buttons(request, token)
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: Any, form: Any, change: Any
    ) -> None:
        """Make the token; its secret rides on the object to the answer."""
        user: Any = obj.user if request.user.is_superuser else request.user
        made, secret = tokens.make(user, obj.name, obj.expires_at)
        obj.pk, obj.secret = made.pk, secret
        obj.refresh_from_db()

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: Any = None
    ) -> HttpResponse:
        """Show the secret, this once."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("Token made"),
            "opts": self.opts,
            "media": self.media,
            "token": obj,
            "secret": obj.secret,
            "list_url": self.admin_url("apitoken_changelist"),
        }
        template = "admin/buildqueue/apitoken/made.html"
        return TemplateResponse(request, template, context)

    @admin.display(description=gettext_lazy("Status"))
    def state(self, token: ApiToken) -> display.Shown:
        """Icon and word."""
        if token.revoked_at:
            return display.badge("revoked", _("revoked"))
        if token.expires_at and token.expires_at <= clock.now():
            return display.badge("expired", _("expired"))
        return display.badge("active", _("active"))

    @admin.display(description=gettext_lazy("Last used"))
    def last_used(self, token: ApiToken) -> display.Shown:
        """How long ago it was used."""
        return moments.ago(token.last_used_at)
