"""What is a verb given? A reason, an answer to a question, or a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from ..queue.logs import storable
from .asked import MAX_REASON
from .problems import refused
from .reading import JSON, json_object, meant, parts
from .receiving import FORM, MULTIPART, receive


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBody:
    """The answer to a job's question."""

    values: dict[str, Any]
    key: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionBody:
    """A decision on an action, bound to the content that was seen."""

    content_hash: str
    reason: str


def described(
    optional: dict[str, dict[str, str]] | None = None, **needed: dict[str, str]
) -> dict[str, Any]:
    """Return how the schema tells a verb's body: what it needs, what else, a reason."""
    reason = {"type": "string", "maxLength": MAX_REASON}
    schema = {
        "type": "object",
        "properties": {**needed, **(optional or {}), "reason": reason},
        "required": list(needed),
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": bool(needed), "content": content}}


def read_answer(request: HttpRequest) -> AnswerBody:
    """Return what answers a question, `{"values": {…}, "key": …, "reason": …}`."""
    given = _only_json(request, ("values", "key", "reason"), needed="values")
    values = given["values"]
    if not isinstance(values, dict):
        why = "an object of field to value"
        raise refused("invalid_field", f"values must be {why}", {"values": why})
    key = given.get("key")
    if key is not None and not isinstance(key, str):
        why = "the key that the question tells"
        raise refused("invalid_field", f"key must be {why}", {"key": why})
    reason = checked_reason(given.get("reason", ""))
    return AnswerBody(values=values, key=key, reason=reason)


def read_decision(request: HttpRequest) -> DecisionBody:
    """Return a decision, `{"content_hash": …, "reason": …}`."""
    given = _only_json(request, ("content_hash", "reason"), needed="content_hash")
    content_hash = given["content_hash"]
    if not isinstance(content_hash, str):
        why = "the text that the action tells"
        raise refused(
            "invalid_field", f"content_hash must be {why}", {"content_hash": why}
        )
    reason = checked_reason(given.get("reason", ""))
    return DecisionBody(content_hash=content_hash, reason=reason)


def _only_json(
    request: HttpRequest, known: tuple[str, ...], *, needed: str
) -> dict[str, Any]:
    if request.content_type != JSON:
        raise refused("unsupported_media_type", f"send {JSON}")
    given = json_object(request)
    for field in given:
        meant(field, {each: each for each in known})
    if needed not in given:
        raise refused("missing_field", f"add {needed!r}", {needed: "must be given"})
    return given


def read_reason(request: HttpRequest) -> str:
    """Return the reason that a verb's body gives, `{"reason": …}` or a form; or none."""
    if request.content_type == JSON:
        given = json_object(request)
    elif request.content_type in (FORM, MULTIPART):
        receive(request)
        given = dict(parts(request))
    elif request.headers.get("Content-Length", "0") in ("", "0"):
        given = {}
    else:
        raise refused("unsupported_media_type", f"send the reason as {JSON}, or none")
    for field in given:
        meant(field, {"reason": "reason"})
    return checked_reason(given.get("reason", ""))


def checked_reason(reason: object) -> str:
    """Return a reason that can be stored; Refused when it is none."""
    if not isinstance(reason, str) or len(reason) > MAX_REASON:
        why = f"a text of at most {MAX_REASON} characters"
        raise refused("invalid_field", f"the reason must be {why}", {"reason": why})
    return storable(reason)
