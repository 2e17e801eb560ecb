"""How is a notice posted to a webhook? Once, within bounds.

Only an answer of 2xx counts as taken. No redirect is followed: what was signed for one
receiver goes to no other. Of a refusal at most one short piece is read.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import IO, Any, Final

from .deadlines import Deadline, HttpsWithin, HttpWithin

TIMEOUT_SECONDS: Final = 10.0  # from one byte to the next
DEADLINE_SECONDS: Final = 30.0  # for all; below the time a notice is held
MOST_OF_ANSWER: Final = 500
LATE: Final = f"no whole answer within {DEADLINE_SECONDS:g} s"


class NotTaken(Exception):
    """The receiver did not take it; the message says why and holds no address."""


class _StayHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow no redirect: 3xx is an answer like any other that is not 2xx."""


def post(url: str, headers: Mapping[str, str], content: bytes) -> None:
    """Post the content; NotTaken when the receiver is not there or does not take it."""
    request = urllib.request.Request(  # noqa: S310 (the settings take http and https)
        url,
        data=content,
        method="POST",
        headers={
            "Content-Type": "application/json",
            "User-Agent": "buildqueue",
            **headers,
        },
    )
    with Deadline(DEADLINE_SECONDS) as deadline:
        try:
            _exchange(request, deadline)
        except NotTaken:
            if deadline.is_over:
                raise NotTaken(LATE) from None
            raise
        if deadline.is_over:  # what looks like an answer may be the beginning of one
            raise NotTaken(LATE)


def _exchange(request: urllib.request.Request, deadline: Deadline) -> None:
    opener = urllib.request.build_opener(
        _StayHere, HttpWithin(deadline), HttpsWithin(deadline)
    )
    try:
        opener.open(request, timeout=TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as answer:
        with answer:
            raise NotTaken(f"answered {answer.code}: {_first_piece(answer)}") from None
    except urllib.error.URLError as error:
        raise NotTaken(f"not reached: {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise NotTaken(f"not reached: {type(error).__name__}: {error}") from None


def _first_piece(answer: IO[bytes]) -> str:
    # One read, never more: a body that trickles must not hold the other notices up.
    read = getattr(answer.fp, "read1", answer.read)  # type: ignore[attr-defined]
    try:
        return str(read(MOST_OF_ANSWER).decode(errors="replace"))
    except (OSError, HTTPException):
        return ""
