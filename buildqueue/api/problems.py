"""How is an error told? As application/problem+json (RFC 9457), on every path.

`CODES` lists the codes that the API itself answers with; what refuses a submission or a
verb brings its own code along in `exceptions.Refused`. A code never changes its
meaning: `docs/reference/api.md` lists them all, and a test holds it to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from django.http import HttpRequest, JsonResponse

from ..exceptions import Refused

CONTENT_TYPE: Final = "application/problem+json"
RESERVED: Final = frozenset(
    {"type", "title", "status", "detail", "code", "fields", "instance"}
)

# code -> (status, title)
CODES: Final[dict[str, tuple[int, str]]] = {
    "malformed_json": (400, "The body is not JSON"),
    "malformed_multipart": (400, "The body is not a sound form"),
    "too_many_fields": (400, "The form has too many parts"),
    "upload_interrupted": (400, "The upload ended early"),
    "bad_request": (400, "The request cannot be taken"),
    "not_authenticated": (401, "Who are you?"),
    "invalid_token": (401, "The token is not valid"),
    "csrf_failed": (403, "The CSRF token is missing or wrong"),
    "forbidden": (403, "Not allowed"),
    "not_found": (404, "No such address"),
    "invalid_id": (404, "Not an id"),
    "job_not_found": (404, "No such job"),
    "build_not_found": (404, "No such build"),
    "agent_not_found": (404, "No such agent"),
    "action_not_found": (404, "No such action"),
    "connector_not_found": (404, "No such connector"),
    "watch_not_found": (404, "No such watch"),
    "proposal_not_found": (404, "No such proposal"),
    "secret_not_found": (404, "No such secret"),
    "grant_not_found": (404, "No such grant"),
    "user_not_found": (404, "No such user"),
    "method_not_allowed": (405, "Method not allowed"),
    "invalid_transition": (409, "The job's state does not allow it"),
    "duplicate_job": (409, "The job is there already"),
    "length_required": (411, "The length of the body is needed"),
    "source_too_large": (413, "The source is too large"),
    "body_too_large": (413, "The body is too large"),
    "unsupported_media_type": (415, "Another content type is needed"),
    "unknown_field": (422, "A field is not known"),
    "missing_field": (422, "A field is missing"),
    "repeated_field": (422, "A field is given twice"),
    "invalid_field": (422, "A field is not valid"),
    "invalid_parameter": (422, "A query parameter is not valid"),
    "invalid_payload": (422, "The job could not run like this"),
    "internal_error": (500, "Something broke"),
    "database_unavailable": (503, "The database does not answer"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error, ready to be told."""

    code: str
    detail: str
    status: int
    fields: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """A few words that are the same each time the code is told."""
        if self.code in CODES:
            return CODES[self.code][1]
        return self.code.replace("_", " ").capitalize()

    def response(self, request: HttpRequest) -> JsonResponse:
        """Return the answer; members of `extra` stand beside the standard ones."""
        status = HTTPStatus(self.status)
        body: dict[str, object] = {
            "type": f"urn:problem-type:buildqueue:{self.code}",
            "title": self.title,
            "status": status.value,
            "detail": self.detail,
            "code": self.code,
            "fields": dict(self.fields),
            "instance": request.path,
        }
        body |= {k: v for k, v in self.extra.items() if k not in RESERVED}
        return JsonResponse(
            body,
            status=status.value,
            content_type=CONTENT_TYPE,
            headers=dict(self.headers),
        )


def problem(
    code: str,
    detail: str,
    *,
    fields: Mapping[str, str] | None = None,
    extra: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Problem:
    """Return a problem of one of the API's own codes."""
    return Problem(
        code=code,
        detail=detail,
        status=CODES[code][0],
        fields=fields or {},
        extra=extra or {},
        headers=headers or {},
    )


def refused(
    code: str, message: str, fields: Mapping[str, str] | None = None
) -> Refused:
    """Return the exception for one of the API's own codes, to be raised."""
    return Refused(code, message, status=CODES[code][0], fields=fields)
