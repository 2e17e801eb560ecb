"""What does a request bring? The fields of an upload, or what a verb is given.

Every field is known, given once, and of the right sort, or the request is refused with
the field's name; a misspelled one never passes in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import UploadedFile as AnyUploadedFile
from django.http import HttpRequest, UnreadablePostError

from .. import conf
from ..queue.logs import storable
from .problems import refused
from .receiving import FORM, MULTIPART, receive, too_large

UploadedFile: TypeAlias = "AnyUploadedFile[Any]"
JSON: Final = "application/json"
MAX_REASON: Final = 1000
CSRF_FIELD: Final = "csrfmiddlewaretoken"

# field as sent -> field as meant; the second spellings are nasiko's
UPLOAD_FIELDS: Final = {
    "name": "name",
    "agent_name": "name",
    "source": "source",
    "file": "source",
    "version": "version",
    "version_tag": "version",
    "changelog": "changelog",
    "ports": "ports",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadForm:
    """The fields of an upload."""

    name: str
    source: UploadedFile
    version: str | None
    changelog: str | None
    ports: tuple[int, ...]


def read_upload(request: HttpRequest) -> UploadForm:
    """Return the fields of an upload; Refused names each field that is at fault."""
    if request.content_type != MULTIPART:
        raise refused(
            "unsupported_media_type",
            "send the upload as multipart/form-data: the zip as 'source', "
            "and its agent's name as 'name'",
        )
    receive(request)
    given: dict[str, Any] = {}
    for field, value in _parts(request):
        meant = _meant(field, UPLOAD_FIELDS)
        if meant in given:
            raise refused(
                "repeated_field",
                f"{meant!r} is given twice; send it once",
                {field: f"given twice, as {meant!r}"},
            )
        given[meant] = _checked(meant, field, value)
    _refuse_missing(given)
    source = given["source"]
    if source.size > (limit := conf.get().upload_max_bytes):
        raise too_large(limit)  # read by the host, who counts otherwise
    return UploadForm(
        name=given["name"],
        source=source,
        version=given.get("version") or None,
        changelog=given.get("changelog") or None,
        ports=_ports(given.get("ports", "")),
    )


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
    given = _json_object(request)
    for field in given:
        _meant(field, {each: each for each in known})
    if needed not in given:
        raise refused("missing_field", f"add {needed!r}", {needed: "must be given"})
    return given


def read_reason(request: HttpRequest) -> str:
    """Return the reason that a verb's body gives, `{"reason": …}` or a form; or none."""
    if request.content_type == JSON:
        given = _json_object(request)
    elif request.content_type in (FORM, MULTIPART):
        receive(request)
        given = dict(_parts(request))
    elif request.headers.get("Content-Length", "0") in ("", "0"):
        given = {}
    else:
        raise refused("unsupported_media_type", f"send the reason as {JSON}, or none")
    for field in given:
        _meant(field, {"reason": "reason"})
    return checked_reason(given.get("reason", ""))


def checked_reason(reason: object) -> str:
    """Return a reason that can be stored; Refused when it is none."""
    if not isinstance(reason, str) or len(reason) > MAX_REASON:
        why = f"a text of at most {MAX_REASON} characters"
        raise refused("invalid_field", f"the reason must be {why}", {"reason": why})
    return storable(reason)


def _parts(request: HttpRequest) -> Iterator[tuple[str, str | UploadedFile]]:
    for field, values in request.POST.lists():
        if field != CSRF_FIELD:
            yield from ((field, str(value)) for value in values)
    for field, files in request.FILES.lists():
        yield from ((field, file) for file in files)


def _meant(field: str, known: dict[str, str]) -> str:
    if field in known:
        return known[field]
    near = get_close_matches(field, known, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    name = field[:100]
    raise refused(
        "unknown_field", f"{name!r} is not a field here; {advice}", {name: advice}
    )


def _checked(meant: str, field: str, value: str | UploadedFile) -> str | UploadedFile:
    if (meant == "source") != isinstance(value, AnyUploadedFile):
        wanted = "a file, with a file name" if meant == "source" else "text, not a file"
        raise refused(
            "invalid_field", f"send {field!r} as {wanted}", {field: f"must be {wanted}"}
        )
    if isinstance(value, str) and "\x00" in value:
        why = "must not contain NUL"
        raise refused("invalid_field", f"{field!r} {why}", {field: why})
    return value


def _ports(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(port) for port in text.split(",") if port.strip())
    except ValueError:
        why = "numbers with commas between, such as 8000,9000"
        raise refused("invalid_field", f"ports: {why}", {"ports": why}) from None


def _refuse_missing(given: dict[str, Any]) -> None:
    wanted = {"name": "the agent's name", "source": "the zip file"}
    missing = {field: what for field, what in wanted.items() if not given.get(field)}
    if missing:
        listed = " and ".join(f"{field!r} ({what})" for field, what in missing.items())
        raise refused("missing_field", f"add {listed} to the form", missing)


def _json_object(request: HttpRequest) -> dict[str, Any]:
    try:
        given = json.loads(request.body or b"{}")
    except RequestDataTooBig as error:
        raise refused("body_too_large", "send a shorter body") from error
    except UnreadablePostError as error:
        raise refused("upload_interrupted", "the request ended early; again") from error
    except (ValueError, RecursionError) as error:
        advice = 'the body is not JSON; send an object, such as {"reason": "why"}'
        raise refused("malformed_json", advice) from error
    if not isinstance(given, dict):
        raise refused("malformed_json", 'send an object, such as {"reason": "why"}')
    return given
