"""Which verbs on a job ask for more than a reason? Its priority, its time, an answer.

Only fields and words: `queue.verbs` judges what is given, and what it refuses is told at
the field. An answer is bound to the question that was shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import states
from ..models import BuildJob
from ..models.jobs import MOMENTS
from ..queue import verbs
from ..queue.outcomes import Actor
from ..states import OPEN, JobStatus
from . import answering
from .acts import Act, says
from .jobacts import unless_in

Fields = dict[str, forms.Field]
Given = Mapping[str, Any]
PICKED = "%Y-%m-%dT%H:%M:%S"  # what a browser's field for a moment holds


def _priority_fields(jobs: Sequence[BuildJob]) -> Fields:
    return {
        "priority": forms.IntegerField(
            label=_("Priority"),
            min_value=-100,
            max_value=100,
            initial=jobs[0].priority if len(jobs) == 1 else None,
            help_text=_("-100 to 100; the higher the sooner."),
        )
    }


def _change_priority(
    job: BuildJob, actor: Actor, reason: str, *, values: Given
) -> BuildJob:
    return verbs.change_priority(
        job.pk, priority=values["priority"], actor=actor, reason=reason
    )


def _due_fields(jobs: Sequence[BuildJob]) -> Fields:
    due: datetime | None = jobs[0].due_at if len(jobs) == 1 else None
    earliest, latest = MOMENTS
    return {
        "due_at": forms.DateTimeField(
            label=_("Due"),
            initial=due and timezone.localtime(due).replace(microsecond=0),
            validators=[MinValueValidator(earliest), MaxValueValidator(latest)],
            widget=forms.DateTimeInput(
                format=PICKED, attrs={"type": "datetime-local", "step": "1"}
            ),
            help_text=_("In the time zone %(zone)s; a moment that is past means now.")
            % {"zone": timezone.get_current_timezone_name()},
        )
    }


def _change_due(job: BuildJob, actor: Actor, reason: str, *, values: Given) -> BuildJob:
    return verbs.change_due(job.pk, due_at=values["due_at"], actor=actor, reason=reason)


def _answer(
    job: BuildJob, actor: Actor, reason: str, *, values: Given, seen: str
) -> BuildJob:
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return verbs.answer(job.pk, values=given, actor=actor, reason=reason, key=seen)


ANSWER = Act(
    name="answer",
    label=gettext_lazy("Answer"),
    action_label=gettext_lazy("Answer"),
    effect=gettext_lazy(
        "The job goes on with your answer as soon as a worker is free."
    ),
    permission=verbs.MAY_ANSWER,
    call=_answer,
    why_not=unless_in({JobStatus.WAITING_INPUT}),
    needs_reason=False,
    leads_to=JobStatus.PENDING,
    fields=answering.fields_of,
    seen=answering.key_of,
    shows="admin/buildqueue/buildjob/asked.html",
    for_many=False,
    told=says(gettext_lazy("Your answer is stored; the job goes on.")),
)
ASKING_ACTS = (
    Act(
        name="change_priority",
        label=gettext_lazy("Change priority"),
        action_label=gettext_lazy("Change the priority of selected jobs"),
        effect=gettext_lazy("The job becomes more or less urgent than others."),
        permission=verbs.MAY_RESCHEDULE,
        call=_change_priority,
        why_not=unless_in(OPEN),
        needs_reason=False,
        fields=_priority_fields,
        told=says(gettext_lazy("The job's priority is changed.")),
    ),
    Act(
        name="change_due",
        label=gettext_lazy("Change due time"),
        action_label=gettext_lazy("Change when selected jobs are due"),
        effect=gettext_lazy(
            "The job starts at another time; until then nobody takes it."
        ),
        permission=verbs.MAY_RESCHEDULE,
        call=_change_due,
        why_not=unless_in(states.RESCHEDULE.sources),
        needs_reason=False,
        fields=_due_fields,
        told=says(gettext_lazy("The job's due time is changed.")),
    ),
    ANSWER,
)
