"""How is a form read within limits?

An upload is counted while it streams in; one byte too many ends it, and what was
written so far is gone with the request: it stands in the operating system's temporary
folder, and never is a row or a stored source.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from django.core.exceptions import (
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
)
from django.core.files.uploadhandler import FileUploadHandler, StopUpload
from django.http import HttpRequest, UnreadablePostError
from django.http.multipartparser import MultiPartParserError

from .. import conf
from ..exceptions import Refused
from .problems import refused

MULTIPART: Final = "multipart/form-data"
FORM: Final = "application/x-www-form-urlencoded"
# What a form adds to the file: boundaries, headers, the text fields.
FORM_OVERHEAD: Final = 1024 * 1024


class SizeLimit(FileUploadHandler):
    """Counts the bytes of all files of a form; one too many ends the upload."""

    def __init__(self, request: HttpRequest, limit: int) -> None:
        super().__init__(request)
        self.limit, self.taken = limit, 0

    @property
    def exceeded(self) -> bool:
        """Whether the upload was ended for its size."""
        return self.taken > self.limit

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        """Count, and hand the bytes on to the handler that keeps them."""
        self.taken += len(raw_data)
        if self.exceeded:
            raise StopUpload(connection_reset=True)
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """Leave the file to the handler that keeps it."""


def receive(request: HttpRequest) -> None:
    """Read a form within the limits; Refused when it breaks one.

    A second call, or one after a middleware has read the form, changes nothing.
    """
    if request.content_type not in (FORM, MULTIPART):
        return
    if request.method == "PUT":
        # Django reads a form of POST alone.
        request.method = "POST"
        try:
            receive(request)
        finally:
            request.method = "PUT"
    if request.method != "POST":
        return
    if request.content_type == FORM:
        _parse(request)
        return
    limit = conf.get().upload_max_bytes
    counter = SizeLimit(request, limit)
    try:
        request.upload_handlers.insert(0, counter)
    except AttributeError:
        return  # it is read already
    _refuse_declared_length(request, limit)
    _parse(request)
    if counter.exceeded:
        _drain(request, limit)
        raise too_large(limit)


def _parse(request: HttpRequest) -> None:
    """Make Django read the form, and tell its faults in our words."""
    try:
        with ExitStack() as cleanup:
            cleanup.callback(_close_unfinished, request)
            len(request.POST)
            cleanup.pop_all()
    except TooManyFilesSent as error:
        raise refused("too_many_fields", "send one file, as 'source'") from error
    except TooManyFieldsSent as error:
        raise refused("too_many_fields", "send each field once, no other") from error
    except RequestDataTooBig as error:
        advice = "the text fields are too long; only the source may be large"
        raise refused("body_too_large", advice) from error
    except UnreadablePostError as error:
        raise refused("upload_interrupted", "the upload ended early; again") from error
    except MultiPartParserError as error:
        advice = f"the form cannot be read: {error}"
        raise refused("malformed_multipart", advice) from error


def _close_unfinished(request: HttpRequest) -> None:
    """Close the file that an error left half written, which removes it."""
    for handler in request.upload_handlers:
        if file := getattr(handler, "file", None):
            file.close()


def _refuse_declared_length(request: HttpRequest, limit: int) -> None:
    declared = request.headers.get("Content-Length", "")
    coding = request.headers.get("Transfer-Encoding", "").lower()
    # Under ASGI the server has taken the whole body before; WSGI would see none.
    if not declared and "chunked" in coding and not hasattr(request, "scope"):
        raise refused("length_required", "send the body with its Content-Length")
    if declared.isdecimal() and int(declared) > limit + FORM_OVERHEAD:
        if int(declared) <= 2 * limit:
            _drain(request, int(declared))
        raise too_large(limit)


def _drain(request: HttpRequest, at_most: int) -> None:
    """Read on for a bounded while: a client still sending would never see the answer."""
    try:
        while at_most > 0 and (chunk := request.read(min(64 * 1024, at_most))):
            at_most -= len(chunk)
    except OSError:
        return  # it has gone


def too_large(limit: int) -> Refused:
    """Return the refusal of a source over the limit."""
    mib = limit / 1024 / 1024
    return refused(
        "source_too_large",
        f"the source is larger than {mib:g} MiB; leave out what the agent does not need, "
        "such as virtual environments and data",
        {"source": f"at most {limit} bytes"},
    )
