"""Which verbs of the domain does the control room offer, in which words?

On agents those of `builds/retirement.py`, on tokens that of `tokens.py`. Each asks
for the row again under its own lock; what is said here is only what people read.
"""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import tokens
from ..builds import retirement
from ..models import Agent, ApiToken
from ..queue.outcomes import Actor
from .acts import Act, says


def _why_not_agent(agent: Agent) -> str:
    return _("it was deleted") if agent.deleted_at else ""


def _stop_agent(agent: Agent, actor: Actor, reason: str) -> object:
    return retirement.stop_agent(agent, actor=actor, reason=reason)


def _delete_agent(agent: Agent, actor: Actor, reason: str) -> object:
    return retirement.delete_agent(agent, actor=actor, reason=reason)


AGENT_ACTS = (
    Act(
        name="stop",
        label=gettext_lazy("Stop"),
        action_label=gettext_lazy("Stop selected agents"),
        effect=gettext_lazy(
            "The agent's processes are ended by its host's worker. It can be deployed "
            "again."
        ),
        permission="buildqueue.stop_agent",
        told=says(gettext_lazy("The agent is being stopped.")),
        call=_stop_agent,
        why_not=_why_not_agent,
    ),
    Act(
        name="retire",
        label=gettext_lazy("Delete"),
        action_label=gettext_lazy("Delete selected agents"),
        effect=gettext_lazy(
            "The agent is deleted: its open jobs are cancelled, its processes are "
            "ended, its name is free. Its history stays."
        ),
        permission="buildqueue.delete_agent",
        told=says(gettext_lazy("The agent is deleted.")),
        call=_delete_agent,
        why_not=_why_not_agent,
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
