"""What does an exception mean to the client? Each one becomes a problem.

What is not foreseen is told as `internal_error`, logged with its traceback, which the
client never sees. An error rolls the request's transaction back where the host opened
one (ATOMIC_REQUESTS), as an exception would have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError, connections
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from ..exceptions import (
    BackendError,
    BuildQueueError,
    DuplicateJob,
    InvalidPayload,
    InvalidTransition,
    Refused,
    Unavailable,
)
from .problems import CODES, Problem, problem

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponse]
CHALLENGE: Final = 'Bearer realm="buildqueue"'
LATER_SECONDS: Final = "5"


def install(api: NinjaAPI) -> None:
    """Answer every exception of the routes with a problem."""
    # The lookup goes along the exception's bases: what is closest wins.
    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, _answer)


def at_the_edge(view: View) -> View:
    """Return the view with what its framework answers by itself made into problems."""

    @wraps(view)
    def edge(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wants_body = request.method != "HEAD"
        if not wants_body:
            request.method = "GET"
        try:
            response = view(request, *args, **kwargs)
        except Exception as error:  # of views that are not routes: no address, schema
            response = _answer(request, error)
        if isinstance(response, HttpResponseNotAllowed):
            response = _not_allowed(request, response.headers["Allow"])
        patch_cache_control(response, private=True, no_cache=True)
        patch_vary_headers(response, ["Authorization", "Cookie"])
        if not wants_body:
            response.headers["Content-Length"] = str(len(response.content))
            response.content = b""
        return response

    return edge


def _not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    detail = f"{request.method} is not possible here; possible: {allowed}"
    found = problem("method_not_allowed", detail, headers={"Allow": allowed})
    return found.response(request)


@csrf_exempt
def no_such_address(request: HttpRequest, **kwargs: str) -> HttpResponse:
    """Answer for addresses below ours that are none, however they are asked."""
    raise Http404(request.path)


def _answer(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    found = problem_of(error)
    if found.status >= 500:
        logger.error("request failed: %s", found.code, exc_info=error)  # type: ignore[arg-type]
    _roll_back()
    return found.response(request)


def _roll_back() -> None:
    for each in connections.all(initialized_only=True):
        if each.settings_dict["ATOMIC_REQUESTS"] and each.in_atomic_block:
            each.set_rollback(True)


def problem_of(error: object) -> Problem:
    """Return the problem that tells an exception."""
    match error:
        case BuildQueueError():
            return _of_ours(error)
        case AuthenticationError():
            detail = "log in, or send Authorization: Bearer bq_… with a token of yours"
            headers = {"WWW-Authenticate": CHALLENGE}
            return problem("not_authenticated", detail, headers=headers)
        case ValidationError():
            return _of_parameters(error)
        case Http404():
            detail = f"there is no such address: {error}; the schema lists all"
            return problem("not_found", detail)
        case SuspiciousOperation() | HttpError():
            return problem("bad_request", "the request cannot be read")
        case OperationalError() | InterfaceError():
            headers = {"Retry-After": LATER_SECONDS}
            return problem("database_unavailable", "try again soon", headers=headers)
        case _:
            return problem("internal_error", "the fault is ours; it has been logged")


def _of_ours(error: BuildQueueError) -> Problem:
    match error:
        case Refused():
            return _of_refusal(error)
        case InvalidTransition(found=None):
            return problem("job_not_found", "this job does not exist any more")
        case InvalidTransition():
            facts = {"found": error.found, "verb": error.verb}
            return problem("invalid_transition", f"{error}; look again", extra=facts)
        case DuplicateJob():
            extra = {"job_id": str(error.job_id) if error.job_id else None}
            return problem("duplicate_job", f"{error}; follow that one", extra=extra)
        case InvalidPayload():
            return problem("invalid_payload", str(error), fields=error.errors)
        case BackendError():
            return _of_backend(error)
        case _:
            return problem("internal_error", "the fault is ours; it has been logged")


def _of_refusal(error: Refused) -> Problem:
    headers: dict[str, str] = {}
    if error.status == 401:
        headers["WWW-Authenticate"] = f'{CHALLENGE}, error="invalid_token"'
    if error.status in (429, 503):
        headers["Retry-After"] = LATER_SECONDS
    return Problem(
        code=error.code,
        detail=str(error),
        # A code has one status, whoever refuses with it.
        status=CODES[error.code][0] if error.code in CODES else error.status,
        fields=error.fields,
        extra=error.extra,
        headers=headers,
    )


def _of_backend(error: BackendError) -> Problem:
    """Tell what the outside world refused; its detail stays in the log."""
    later = isinstance(error, Unavailable)
    return Problem(
        code=error.code,
        detail=str(error),
        status=503 if later else 400,
        headers={"Retry-After": LATER_SECONDS} if later else {},
    )


def _of_parameters(error: ValidationError) -> Problem:
    faults = {
        ".".join(map(str, fault["loc"][1:])): str(fault["msg"])
        for fault in error.errors
    }
    if any(fault["loc"][0] == "path" for fault in error.errors):
        detail = "the id in the address is not a UUID; take it from a link or a list"
        return problem("invalid_id", detail, fields=faults)
    listed = "; ".join(f"{name}: {why}" for name, why in faults.items())
    return problem("invalid_parameter", listed, fields=faults)
