"""Of which types are the fields of a body? In a form they are text, and turned into it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile as AnyUploadedFile
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

MAX_REASON: Final = 1000


def _plain(text: str) -> str:
    """Return a text that can be stored."""
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("must be a text that UTF-8 can hold") from None
    return text


def _file(value: object) -> object:
    if not isinstance(value, AnyUploadedFile):
        raise ValueError("must be a file, with a file name")
    return value


def _id(value: object) -> object:
    try:
        return UUID(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("must be a UUID; take it from a link or a list") from None


def _ports(value: object) -> object:
    """Turn what a form holds, numbers with commas between, into a list."""
    if not isinstance(value, str):
        return value
    try:
        return [int(port) for port in value.split(",") if port.strip()]
    except ValueError:
        raise ValueError("numbers with commas between, such as 8000,9000") from None


def _environment(value: object) -> object:
    """Turn what a form holds, a JSON object, into names and values."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError('a JSON object of texts, such as {"NAME": "value"}') from None


Text = Annotated[str, AfterValidator(_plain)]
Given = Annotated[str, AfterValidator(_plain), Field(min_length=1)]
Reason = Annotated[str, AfterValidator(_plain), Field(max_length=MAX_REASON)]
Source = Annotated[
    Any,
    BeforeValidator(_file),
    WithJsonSchema({"type": "string", "format": "binary"}),
]
Id = Annotated[UUID, BeforeValidator(_id)]
Ports = Annotated[list[int], BeforeValidator(_ports)]
Environment = Annotated[
    dict[str, Any],
    BeforeValidator(_environment),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]
