"""What may a job ask a person, and does the answer fit?

A question has named fields, each of one type. The answer is checked against them before
anything is stored, so a handler finds what it asked for or nothing. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidationError,
    create_model,
)
from pydantic import Field as Asked

from ..exceptions import Refused

FieldType = Literal["text", "integer", "number", "boolean", "choice"]
LONGEST_TEXT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing that is asked for."""

    type: FieldType = "text"
    label: str = ""  # empty: its name
    help: str = ""
    required: bool = True
    choices: tuple[str, ...] = ()  # of a choice

    def __post_init__(self) -> None:
        """Refuse an unknown type, a choice without choices, choices of something else."""
        if not all(isinstance(text, str) for text in (self.label, self.help)):
            raise TypeError("a field's label and help are texts")
        if not isinstance(self.required, bool):
            raise TypeError(f"required is true or false, not {self.required!r}")
        if not isinstance(self.choices, tuple) or not all(
            isinstance(choice, str) for choice in self.choices
        ):
            raise TypeError("a field's choices are a tuple of texts")
        if self.type not in get_args(FieldType):
            known = ", ".join(get_args(FieldType))
            raise ValueError(f"a field's type is one of {known}, not {self.type!r}")
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("exactly a field of type choice has choices")


def stored(
    question: str, fields: Mapping[str, Field], *, attempt: int = 1
) -> dict[str, Any]:
    """Return the question as the job keeps it; `key` tells it from any other one.

    From the same words in another attempt, too: they may mean something else by then.
    """
    asked = {
        "attempt": attempt,
        "question": question,
        "fields": {
            name: asdict(field) | {"choices": list(field.choices)}
            for name, field in fields.items()
        },
    }
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    # The database keeps the keys of an object in an order of its own.
    return {"for": "input", "key": digest[:16], "order": list(fields), **asked}


def fields_of(asked: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of a question as the job keeps it, in the order of asking.

    What another writer has put there is read as far as it goes: a row that cannot be
    shown could not be answered.
    """
    kept, order = asked.get("fields"), asked.get("order")
    if not isinstance(kept, Mapping):
        return {}
    names = order if isinstance(order, list) else list(kept)
    known = [name for name in names if isinstance(name, str) and name in kept]
    return {name: _read(kept[name]) for name in known}


def _read(kept: object) -> Field:
    told = kept if isinstance(kept, Mapping) else {}
    given = told.get("choices")
    choices = tuple(map(str, given)) if isinstance(given, list) else ()
    found: Any = told.get("type")
    fits = found in get_args(FieldType) and (found == "choice") == bool(choices)
    return Field(
        type=found if fits else "text",
        label=str(told.get("label") or ""),
        help=str(told.get("help") or ""),
        required=told.get("required") is not False,
        choices=choices if fits else (),
    )


def check(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer in the types that were asked for.

    Refused with `answer_does_not_fit` tells each field that does not.
    """
    model = _model(fields_of(asked))
    try:
        fitting = model.model_validate(dict(answer))
    except ValidationError as error:
        faults = {
            ".".join(map(str, fault["loc"])) or "answer": fault["msg"]
            for fault in error.errors(include_input=False, include_url=False)
        }
        listed = "; ".join(f"{name}: {why}" for name, why in faults.items())
        raise Refused(
            "answer_does_not_fit",
            f"The answer does not fit the question: {listed}",
            status=422,
            fields=faults,
        ) from None
    return fitting.model_dump(by_alias=True, exclude_none=True)


def _model(fields: Mapping[str, Field]) -> type[BaseModel]:
    # By alias, so that a field may have any name, also one that a model uses itself.
    parts: dict[str, Any] = {}
    for number, (name, field) in enumerate(fields.items()):
        kind: Any = _type_of(field)
        default: Any = ...
        if not field.required:
            kind, default = kind | None, None
        parts[f"field_{number}"] = (kind, Asked(default, alias=name))
    # What is no number to JSON is none here.
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model("Answer", __config__=config, **parts)


def _type_of(field: Field) -> Any:
    match field.type:
        case "integer":
            return int
        case "number":
            return float
        case "boolean":
            return bool
        case "choice":
            return Literal[field.choices]
        case _:
            least = 1 if field.required else 0
            return Annotated[
                str, StringConstraints(min_length=least, max_length=LONGEST_TEXT)
            ]
