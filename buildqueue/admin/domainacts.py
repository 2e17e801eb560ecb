"""Which verbs on connectors, secrets and tokens does the control room offer?

Each is a verb of `builds` or of `tokens.py`, which asks for the row again; what is said
here is only what people read. A secret's new value is taken and never shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import tokens
from ..builds import secrets
from ..builds.connectors import refreshing, retirement
from ..models import ApiToken, McpConnector, OwnerSecret
from ..queue.outcomes import Actor
from .acts import Act, says

LONGEST_VALUE = 32_768  # as the vault takes it


def _why_not_connector(connector: McpConnector) -> str:
    return _("it was deleted") if connector.deleted_at else ""


def _refresh(connector: McpConnector, actor: Actor, reason: str) -> object:
    return refreshing.refresh_tools(connector, actor=actor)


def _delete_connector(connector: McpConnector, actor: Actor, reason: str) -> object:
    return retirement.delete_connector(connector, actor=actor, reason=reason)


CONNECTOR_ACTS = (
    Act(
        name="refresh",
        label=gettext_lazy("Refresh tools"),
        action_label=gettext_lazy("Refresh the tools of selected connectors"),
        effect=gettext_lazy("The running connector is asked for its tools again."),
        permission="buildqueue.change_mcpconnector",
        told=says(gettext_lazy("The connector is being asked for its tools.")),
        call=_refresh,
        why_not=_why_not_connector,
        needs_reason=False,
    ),
    Act(
        name="retire",
        label=gettext_lazy("Delete"),
        action_label=gettext_lazy("Delete selected connectors"),
        effect=gettext_lazy(
            "The connector is deleted: its open jobs are cancelled, its processes are "
            "ended, its name is free. Its history stays."
        ),
        permission="buildqueue.delete_mcpconnector",
        told=says(gettext_lazy("The connector is deleted.")),
        call=_delete_connector,
        why_not=_why_not_connector,
    ),
)


def _always(_row: object) -> str:
    return ""


def _value_fields(_secrets: Sequence[OwnerSecret]) -> dict[str, forms.Field]:
    hidden = forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 60})
    told = _("In place of the one it has. It cannot be read here afterwards.")
    return {
        "value": forms.CharField(
            label=_("New value"),
            max_length=LONGEST_VALUE,
            strip=False,
            widget=hidden,
            help_text=told,
        )
    }


def _set_value(
    secret: OwnerSecret, actor: Actor, reason: str, *, values: Mapping[str, Any]
) -> None:
    secrets.set_secret(secret.owner_id, secret.name, values["value"])


def _remove_secret(secret: OwnerSecret, actor: Actor, reason: str) -> None:
    secrets.remove_secret(secret.owner_id, secret.name)


SECRET_ACTS = (
    Act(
        name="set",
        label=gettext_lazy("Set a new value"),
        action_label=gettext_lazy("Set a new value"),
        effect=gettext_lazy(
            "What asks for the secret from now on gets the new value. The old one is "
            "gone."
        ),
        permission="buildqueue.change_ownersecret",
        told=says(gettext_lazy("The secret has its new value.")),
        call=_set_value,
        why_not=_always,
        needs_reason=False,
        fields=_value_fields,
        for_many=False,
    ),
    Act(
        name="remove",
        label=gettext_lazy("Delete"),
        action_label=gettext_lazy("Delete selected secrets"),
        effect=gettext_lazy(
            "The secret is gone for good. Builds and watches that name it fail until "
            "its owner sets it again."
        ),
        permission="buildqueue.delete_ownersecret",
        told=says(gettext_lazy("The secret is deleted.")),
        call=_remove_secret,
        why_not=_always,
        removes=True,
    ),
)


def _why_not_token(token: ApiToken) -> str:
    return _("it was revoked already") if token.revoked_at else ""


def _revoke_token(token: ApiToken, actor: Actor, reason: str) -> None:
    tokens.revoke(token)


TOKEN_ACTS = (
    Act(
        name="revoke",
        label=gettext_lazy("Revoke"),
        action_label=gettext_lazy("Revoke selected tokens"),
        effect=gettext_lazy("The next request with the token is refused, for good."),
        permission="buildqueue.change_apitoken",
        told=says(gettext_lazy("The token is revoked.")),
        call=_revoke_token,
        why_not=_why_not_token,
        needs_reason=False,
    ),
)
