"""How does a request's body become named fields? From JSON or a form, each one known.

Every field is known, given once, and of the right sort, or the request is refused with
the field's name; a misspelled one never passes in silence. What was given stands in no
refusal: it may be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import UploadedFile as AnyUploadedFile
from django.http import HttpRequest, UnreadablePostError
from pydantic import BaseModel, ConfigDict, ValidationError

from .problems import refused
from .receiving import FORM, MULTIPART, receive

UploadedFile: TypeAlias = "AnyUploadedFile[Any]"
JSON: Final = "application/json"
CSRF_FIELD: Final = "csrfmiddlewaretoken"
# Deeper than any body of ours; what is deeper costs the parser its stack.
DEEPEST: Final = 32
EXAMPLE: Final = 'send an object, such as {"reason": "why"}'


class Body(BaseModel):
    """What a request may bring. `ALSO` maps other spellings to the fields."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )
    ALSO: ClassVar[Mapping[str, str]] = {}
    NEEDED: ClassVar[Mapping[str, str]] = {}  # what is told when it is missing


AnyBody = TypeVar("AnyBody", bound=Body)


def read(
    request: HttpRequest, kind: type[AnyBody], *, only_form: bool = False
) -> AnyBody:
    """Return the body of a request; Refused names each field that is at fault."""
    known = {name: name for name in kind.model_fields} | dict(kind.ALSO)
    if only_form and request.content_type != MULTIPART:
        raise refused("unsupported_media_type", f"send a form, as {MULTIPART}")
    if request.content_type == JSON:
        return _checked(kind, _named(json_object(request).items(), known), strict=True)
    if request.content_type in (FORM, MULTIPART):
        receive(request)
        # A field that was left empty says nothing, but has to be one.
        given = [
            (field, value)
            for field, value in parts(request)
            if _is_field(field, known) and value != ""
        ]
        return _checked(kind, _named(given, known), strict=False)
    if request.headers.get("Content-Length", "0") in ("", "0"):
        return _checked(kind, {}, strict=True)
    raise refused("unsupported_media_type", f"send the body as {JSON}")


def read_pairs(request: HttpRequest) -> dict[str, Any]:
    """Return a body whose names are the client's own."""
    if request.content_type != JSON:
        raise refused("unsupported_media_type", f"send the body as {JSON}")
    return json_object(request)


def parts(request: HttpRequest) -> Iterator[tuple[str, str | UploadedFile]]:
    """Yield the fields and files of a form, but for the token against CSRF."""
    for field, values in request.POST.lists():
        if field != CSRF_FIELD:
            yield from ((field, str(value)) for value in values)
    for field, files in request.FILES.lists():
        yield from ((field, file) for file in files)


def meant(field: str, known: Mapping[str, str]) -> str:
    """Return the field that a spelling means; refuse one that is not known."""
    if field in known:
        return known[field]
    near = get_close_matches(field[:100], known, n=1)
    listed = ", ".join(known) or "none"
    advice = f"did you mean {near[0]!r}?" if near else f"known: {listed}"
    name = field[:100].encode("utf-8", "replace").decode()
    raise refused(
        "unknown_field", f"{name!r} is not a field here; {advice}", {name: advice}
    )


def _is_field(field: str, known: Mapping[str, str]) -> bool:
    """Refuse what is none; JSON that is called a form would be one field of that name."""
    if field.lstrip().startswith("{"):
        raise refused(
            "unsupported_media_type",
            f"the body is JSON, and not called so: send it with Content-Type: {JSON}",
        )
    return bool(meant(field, known))


def json_object(request: HttpRequest) -> dict[str, Any]:
    """Return the object that a body holds; an empty one for none."""
    try:
        given = json.loads(
            request.body or b"{}",
            object_pairs_hook=_each_once,
            parse_constant=_no_number,
        )
    except RequestDataTooBig as error:
        raise refused("body_too_large", "send a shorter body") from error
    except UnreadablePostError as error:
        raise refused("upload_interrupted", "the request ended early; again") from error
    except (ValueError, RecursionError):
        # Without its cause, which holds the whole body.
        raise refused("malformed_json", f"the body is not JSON; {EXAMPLE}") from None
    if not isinstance(given, dict):
        raise refused("malformed_json", EXAMPLE)
    if _is_deep(given):
        raise refused("malformed_json", f"send at most {DEEPEST} levels of nesting")
    return given


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise _repeated(name, name)
        made[name] = value
    return made


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _is_deep(value: Any, depth: int = 0) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner: Collection[Any] = value.values() if isinstance(value, dict) else value
    return depth >= DEEPEST or any(_is_deep(each, depth + 1) for each in inner)


def _named(
    given: Collection[tuple[str, Any]], known: Mapping[str, str]
) -> dict[str, tuple[str, Any]]:
    """Return field -> how it was spelled, and its value."""
    found: dict[str, tuple[str, Any]] = {}
    for field, value in given:
        name = meant(field, known)
        if name in found:
            raise _repeated(field, name)
        found[name] = (field, value)
    return found


def _repeated(field: str, name: str) -> Exception:
    shown = field[:100].encode("utf-8", "replace").decode()
    told = name[:100].encode("utf-8", "replace").decode()
    return refused(
        "repeated_field",
        f"{told!r} is given twice; send it once",
        {shown: f"given twice, as {told!r}"},
    )


def _checked(
    kind: type[AnyBody], given: Mapping[str, tuple[str, Any]], *, strict: bool
) -> AnyBody:
    """Return the fields in their types; a form's are texts and are turned into them."""
    values = {name: value for name, (_, value) in given.items()}
    try:
        return kind.model_validate(values, strict=strict)
    except ValidationError as error:
        faults = error.errors(
            include_url=False, include_input=False, include_context=False
        )
    spelled = {name: field for name, (field, _) in given.items()}
    missing = {
        str(fault["loc"][0]): kind.NEEDED.get(str(fault["loc"][0]), "must be given")
        for fault in faults
        if fault["type"] == "missing"
    }
    if missing:
        listed = " and ".join(f"{name!r} ({why})" for name, why in missing.items())
        raise refused("missing_field", f"add {listed}", missing)
    wrong: dict[str, str] = {}
    for fault in faults:
        name = str(fault["loc"][0]) if fault["loc"] else "body"
        wrong.setdefault(
            spelled.get(name, name), fault["msg"].removeprefix("Value error, ")
        )
    listed = "; ".join(f"{name}: {why}" for name, why in wrong.items())
    raise refused("invalid_field", listed, wrong)
