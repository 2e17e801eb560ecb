"""Is an upload that is too large, or broken, ended while it streams?"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, RequestFactory
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from buildqueue.api import receiving
from buildqueue.exceptions import Refused

from .conftest import UPLOAD, Upload, assert_problem, files_in
from .test_upload import assert_nothing_is_left

pytestmark = pytest.mark.django_db
KIB = 1024
LIMIT = 256 * KIB


@pytest.fixture(autouse=True)
def limit(settings: Any, folder: Path) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "UPLOAD_MAX_BYTES": LIMIT}


@pytest.mark.parametrize("size", [LIMIT + 1, 2 * LIMIT, 8 * LIMIT])
def test_a_source_over_the_limit_is_refused_and_leaves_nothing(
    size: int, upload: Upload, folder: Path
) -> None:
    problem = assert_problem(upload(b"x" * size), 413, "source_too_large")

    assert problem["fields"] == {"source": f"at most {LIMIT} bytes"}
    assert_nothing_is_left(folder)


def test_two_files_together_meet_the_limit(as_owner: Client, folder: Path) -> None:
    half = b"x" * (LIMIT * 2 // 3)
    form = {
        "name": "greeter",
        "source": SimpleUploadedFile("a.zip", half),
        "file": SimpleUploadedFile("b.zip", half),
    }

    assert_problem(as_owner.post(UPLOAD, form), 413, "source_too_large")

    assert_nothing_is_left(folder)


class CountingStream(io.BytesIO):
    """Tells how much of it was read."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.given = 0

    def read(self, size: int | None = -1) -> bytes:
        chunk = super().read(size)
        self.given += len(chunk)
        return chunk


def streamed(body: bytes, declared: int) -> tuple[Any, CountingStream]:
    stream = CountingStream(body)
    request = RequestFactory().generic("POST", UPLOAD, b"-", MULTIPART_CONTENT)
    request.META["CONTENT_LENGTH"] = str(declared)
    request._stream = stream
    return request, stream


def form_of(content: bytes) -> bytes:
    source = SimpleUploadedFile("a.zip", content)
    return encode_multipart(BOUNDARY, {"name": "greeter", "source": source})


def test_a_length_far_over_the_limit_is_refused_unread() -> None:
    request, stream = streamed(form_of(b"x"), declared=100 * LIMIT)

    with pytest.raises(Refused, match="larger than"):
        receiving.receive(request)

    assert stream.given == 0


def test_a_file_that_grows_over_the_limit_is_kept_no_further(folder: Path) -> None:
    body = form_of(b"x" * 3 * LIMIT)
    request, stream = streamed(body, declared=len(body))

    with pytest.raises(Refused, match="larger than"):
        receiving.receive(request)

    # Read on for a while, so that the client sees the answer, but not to the end.
    assert LIMIT < stream.given < len(body)
    assert files_in(folder) == []


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"junk", "multipart/form-data", "malformed_multipart"),
        (b"junk", "multipart/form-data; boundary=", "malformed_multipart"),
        (
            b'--b\r\nContent-Disposition: form-data; name="source"; filename="a"\r\n'
            b"Content-Transfer-Encoding: base64\r\n\r\n" + b"QUFB" * 40_000 + b"%%%=A",
            "multipart/form-data; boundary=b",
            "malformed_multipart",
        ),
        (b"no parts", "multipart/form-data; boundary=b", "missing_field"),
    ],
)
def test_a_broken_form_is_refused(
    body: bytes, content_type: str, code: str, with_token: Client, folder: Path
) -> None:
    response = with_token.generic("POST", UPLOAD, body, content_type=content_type)

    assert_problem(response, 422 if code == "missing_field" else 400, code)
    assert_nothing_is_left(folder)


def test_a_text_field_that_is_too_long_is_refused(upload: Upload, folder: Path) -> None:
    response = upload(changelog="x" * 3 * 1024 * KIB)

    assert_problem(response, 413, "source_too_large")
    assert_nothing_is_left(folder)


def test_text_fields_have_a_limit_of_their_own(
    upload: Upload, folder: Path, settings: Any
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000

    assert_problem(upload(changelog="x" * 2000), 413, "body_too_large")

    assert_nothing_is_left(folder)


def test_many_fields_are_refused(upload: Upload, folder: Path, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 5

    response = upload(**{f"field{n}": "x" for n in range(10)})

    assert_problem(response, 400, "too_many_fields")
    assert_nothing_is_left(folder)


def test_many_files_are_refused(upload: Upload, folder: Path, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FILES = 2
    files = {f"file{n}": SimpleUploadedFile("x", b"x") for n in range(4)}

    assert_problem(upload(**files), 400, "too_many_fields")
    assert_nothing_is_left(folder)


def test_a_body_of_unknown_length_is_refused(owner: AbstractUser) -> None:
    request, _ = streamed(form_of(b"x"), declared=0)
    del request.META["CONTENT_LENGTH"]
    request.META["HTTP_TRANSFER_ENCODING"] = "chunked"

    with pytest.raises(Refused) as caught:
        receiving.receive(request)

    assert (caught.value.code, caught.value.status) == ("length_required", 411)


def test_a_connection_that_breaks_leaves_nothing(folder: Path) -> None:
    request, stream = streamed(form_of(b"x" * LIMIT), declared=LIMIT)

    def broken(size: int | None = -1) -> bytes:
        if stream.given > LIMIT // 2:
            raise OSError("connection reset")
        return CountingStream.read(stream, size)

    stream.read = broken  # type: ignore[method-assign]

    with pytest.raises(Refused) as caught:
        receiving.receive(request)

    assert caught.value.code == "upload_interrupted"
    assert files_in(folder) == []
