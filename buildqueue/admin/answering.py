"""How does a job's question become a form? One field of the form for each of its own.

The widgets only help: whether an answer fits is said by `queue.questions`, whoever gives
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from ..models import BuildJob
from ..queue import questions
from ..queue.questions import Field

NO_CHOICE = ("", "---------")


def asked_by(job: BuildJob) -> Mapping[str, Any]:
    """Return what the job asks, or asked when it was paused; empty when nothing."""
    found = getattr(getattr(job, "progress", None), "waits_for", None)
    asks = isinstance(found, Mapping) and found.get("for") == "input"
    return found if asks and found else {}


def key_of(job: BuildJob) -> str:
    """Return what tells the job's question from another one."""
    return str(asked_by(job).get("key", ""))


def fields_of(jobs: Sequence[BuildJob]) -> dict[str, forms.Field]:
    """Return the fields of the form that answers a job."""
    asked = asked_by(jobs[0])
    if not asked:
        return {}
    fields = questions.fields_of(asked)
    return {name: _field(name, field) for name, field in fields.items()}


def _field(name: str, field: Field) -> forms.Field:
    common: dict[str, Any] = {
        "label": field.label or name.replace("_", " ").capitalize(),
        "help_text": field.help,
        "required": field.required,
    }
    if not field.required:
        common["label"] = _("%(label)s (optional)") % {"label": common["label"]}
    match field.type:
        case "integer":
            return forms.IntegerField(**common)
        case "number":
            return forms.FloatField(**common)
        case "boolean":
            answers = [NO_CHOICE, ("true", _("yes")), ("false", _("no"))]
            return forms.TypedChoiceField(
                choices=answers, coerce=_is_true, empty_value=None, **common
            )
        case "choice":
            named = [(choice, choice) for choice in field.choices]
            return forms.ChoiceField(choices=[NO_CHOICE, *named], **common)
    return forms.CharField(
        max_length=questions.LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 3}),
        **common,
    )


def _is_true(text: str) -> bool:
    return text == "true"
