"""What do the API's tests start from? Users, a private data folder, a way to upload."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from buildqueue import tokens

from ...factories import make_user
from .zips import make_zip

UPLOAD = "/api/agents/upload-and-deploy"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep sources and temporary files in a folder of the test's own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "DATA_DIR": tmp_path / "kept"}
    settings.FILE_UPLOAD_MAX_MEMORY_SIZE = 0  # every upload becomes a temporary file
    return tmp_path


def files_in(folder: Path) -> list[Path]:
    """Return every file that is left below the folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def owner(db: None) -> AbstractUser:
    """Make the user whom things belong to."""
    return make_user("owner")


@pytest.fixture
def as_owner(owner: AbstractUser) -> Client:
    """Return a client with the owner's session."""
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    return client


@pytest.fixture
def with_token(owner: AbstractUser) -> Client:
    """Return a client that sends the owner's token."""
    return token_client(owner)


def token_client(user: AbstractUser) -> Client:
    """Return a client that sends a token of the user; CSRF is checked as in real life."""
    _, secret = tokens.make(user, "test")
    headers = {"Authorization": f"Bearer {secret}"}
    return Client(
        headers=headers, enforce_csrf_checks=True, raise_request_exception=False
    )


Upload = Callable[..., Any]


@pytest.fixture
def upload(as_owner: Client) -> Upload:
    """Return a function that uploads a zip as the owner."""

    def post(content: bytes | None = None, **fields: Any) -> Any:
        zipped = make_zip() if content is None else content
        form = {"name": "greeter", "source": SimpleUploadedFile("a.zip", zipped)}
        form |= fields
        wanted = {key: value for key, value in form.items() if value is not None}
        return as_owner.post(UPLOAD, wanted)

    return post


def assert_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Check that a response is a whole problem with this code; return it."""
    assert response.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert (response.status_code, problem["code"]) == (status, code), problem
    assert problem["status"] == status
    assert problem["type"] == f"urn:problem-type:buildqueue:{code}"
    assert problem["title"]
    assert len(problem["detail"]) > 10
    assert isinstance(problem["fields"], dict)
    assert problem["instance"].startswith("/api/")
    assert "Traceback" not in response.text
    return problem
