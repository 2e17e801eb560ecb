"""Which verbs on agents does the control room offer, in which words?

They are those of `builds`: start and scale of `running`, the way back of `submission`,
stop and delete of `retirement`. Each looks at the row again under its own lock and may
refuse; what is said here is only what people read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..builds import retirement, running, submission
from ..builds.submission.rollbacks import eligible
from ..builds.versions import numbers
from ..models import Agent
from ..models.agents import MOST_REPLICAS
from ..queue.outcomes import Actor
from ..states import AgentStatus
from .acts import Act, says

Given = Mapping[str, Any]

MAY_DEPLOY = "buildqueue.deploy_agent"


def _why_not(agent: Agent) -> str:
    return _("it was deleted") if agent.deleted_at else ""


def _why_not_start(agent: Agent) -> str:
    if found := _without_version(agent):
        return found
    if agent.status == AgentStatus.RUNNING:
        return _("it is running; a restart has it take over its settings")
    return ""


def _without_version(agent: Agent) -> str:
    if agent.status == AgentStatus.REGISTERED:
        return _("it has no version yet; upload one first")
    return _why_not(agent)


def _why_not_back(agent: Agent) -> str:
    if found := _why_not(agent):
        return found
    return "" if eligible(agent).exists() else _("it has no other version to run")


def _start(agent: Agent, actor: Actor, reason: str) -> object:
    return running.start_agent(agent, actor=actor, reason=reason)


def _restart(agent: Agent, actor: Actor, reason: str) -> object:
    return running.restart_agent(agent, actor=actor, reason=reason)


def _scale(agent: Agent, actor: Actor, reason: str, *, values: Given) -> object:
    number = values["replicas"]
    return running.scale_agent(agent, number, actor=actor, reason=reason)


def _scale_fields(agents: Sequence[Agent]) -> dict[str, forms.Field]:
    return {
        "replicas": forms.IntegerField(
            label=_("Copies"),
            min_value=1,
            max_value=MOST_REPLICAS,
            initial=agents[0].replicas if len(agents) == 1 else None,
            help_text=_("1 to %(most)d; to have none, stop the agent.")
            % {"most": MOST_REPLICAS},
        )
    }


def _roll_back(agent: Agent, actor: Actor, reason: str, *, values: Given) -> object:
    wanted = values["version"]
    return submission.submit_rollback(
        agent, caller=actor, version=wanted, reason=reason
    )


def _version_fields(agents: Sequence[Agent]) -> dict[str, forms.Field]:
    found = sorted(
        eligible(agents[0]), key=lambda each: numbers(each.version) or (0, 0, 0)
    )
    named = [
        (each.version, f"{each.version} ({each.get_status_display()})")
        for each in reversed(found)
    ]
    told = _("Only versions that are built and do not run now.")
    return {
        "version": forms.ChoiceField(label=_("Version"), choices=named, help_text=told)
    }


def _stop(agent: Agent, actor: Actor, reason: str) -> object:
    return retirement.stop_agent(agent, actor=actor, reason=reason)


def _delete(agent: Agent, actor: Actor, reason: str) -> object:
    return retirement.delete_agent(agent, actor=actor, reason=reason)


AGENT_ACTS = (
    Act(
        name="restart",
        label=gettext_lazy("Restart"),
        action_label=gettext_lazy("Restart selected agents"),
        effect=gettext_lazy(
            "A new instance of the active version is started with the settings of now. "
            "The one that runs answers until the new one does."
        ),
        permission=MAY_DEPLOY,
        told=says(gettext_lazy("The agent is being restarted.")),
        call=_restart,
        why_not=_without_version,
        needs_reason=False,
    ),
    Act(
        name="start",
        label=gettext_lazy("Start"),
        action_label=gettext_lazy("Start selected agents"),
        effect=gettext_lazy("The active version runs again, at the same address."),
        permission=MAY_DEPLOY,
        told=says(gettext_lazy("The agent is being started.")),
        call=_start,
        why_not=_why_not_start,
        needs_reason=False,
    ),
    Act(
        name="scale",
        label=gettext_lazy("Scale"),
        action_label=gettext_lazy("Scale selected agents"),
        effect=gettext_lazy(
            "The agent runs in so many copies behind its one address. When nothing of "
            "it runs, its next start does."
        ),
        permission=MAY_DEPLOY,
        told=says(gettext_lazy("The agent is being scaled.")),
        call=_scale,
        why_not=_why_not,
        needs_reason=False,
        fields=_scale_fields,
    ),
    Act(
        name="rollback",
        label=gettext_lazy("Roll back"),
        action_label=gettext_lazy("Roll back"),
        effect=gettext_lazy(
            "The version that you choose is deployed as it was built. The one that runs "
            "answers until the other does, and can be gone back to in the same way."
        ),
        permission=MAY_DEPLOY,
        told=says(gettext_lazy("The version is being deployed.")),
        call=_roll_back,
        why_not=_why_not_back,
        fields=_version_fields,
        for_many=False,
    ),
    Act(
        name="stop",
        label=gettext_lazy("Stop"),
        action_label=gettext_lazy("Stop selected agents"),
        effect=gettext_lazy(
            "The agent's processes are ended by its host's worker. It can be started "
            "again."
        ),
        permission="buildqueue.stop_agent",
        told=says(gettext_lazy("The agent is being stopped.")),
        call=_stop,
        why_not=_why_not,
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
        call=_delete,
        why_not=_why_not,
    ),
)
