"""Is an upload taken at once, whole, under either spelling of its fields?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from buildqueue.models import Agent, AgentBuild, AgentVersion, BuildJob, JobEvent

from .conftest import UPLOAD, Upload, assert_problem, files_in
from .zips import REFUSED, make_zip

pytestmark = pytest.mark.django_db


def test_an_upload_is_queued_and_says_where_to_look(
    upload: Upload, as_owner: Client, owner: AbstractUser
) -> None:
    response = upload(version="1.2.0", changelog="first", ports="8000, 9000")

    assert response.status_code == 202, response.text
    body = response.json()
    job = BuildJob.objects.get(pk=body["job_id"])
    assert body == {
        "job_id": str(job.pk),
        "build_id": str(AgentBuild.objects.get(job=job).pk),
        "agent_id": str(job.agent_id),
        "agent_name": "greeter",
        "new_version": "1.2.0",
        "previous_version": None,
        "status": "queued",
        "links": body["links"],
    }
    assert response.headers["Location"] == f"/api/jobs/{job.pk}"
    assert int(response.headers["Retry-After"]) > 0
    assert job.owner_id == str(owner.pk)
    assert job.payload["spec"] == {"ports": [8000, 9000]}
    assert AgentVersion.objects.get().changelog == "first"
    assert JobEvent.objects.get(job=job, kind="enqueue").actor == "owner"
    for address in body["links"].values():
        assert as_owner.get(address).status_code == 200, address


def test_the_fields_may_be_named_as_in_nasiko(as_owner: Client) -> None:
    form = {
        "agent_name": "greeter",
        "file": SimpleUploadedFile("a.zip", make_zip()),
        "version_tag": "2.0.0",
    }

    response = as_owner.post(UPLOAD, form)

    assert response.status_code == 202, response.text
    assert response.json()["new_version"] == "2.0.0"


def test_without_a_version_the_next_free_one_is_taken(upload: Upload) -> None:
    first, second = upload(), upload()

    assert first.json()["new_version"] == "1.0.0"
    assert second.json()["new_version"] == "1.0.1"


def test_the_temporary_file_of_an_upload_is_removed(
    upload: Upload, folder: Path
) -> None:
    assert upload().status_code == 202

    assert files_in(folder / "temporary") == []
    assert len(files_in(folder / "kept")) == 1


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_zip_is_refused_and_leaves_nothing(
    case: str, upload: Upload, folder: Path
) -> None:
    make, code = REFUSED[case]

    problem = assert_problem(upload(make()), 400, code)

    assert "source" in problem["fields"]
    assert_nothing_is_left(folder)


@pytest.mark.parametrize("name", ["../up", "UPPER", "-dash", "a b", "ä", "x" * 64, "'"])
def test_an_odd_name_is_refused(name: str, upload: Upload, folder: Path) -> None:
    problem = assert_problem(upload(name=name), 400, "invalid_name")

    assert "name" in problem["fields"]
    assert_nothing_is_left(folder)


@pytest.mark.parametrize("version", ["1", "1.2", "v1.2.3", "01.2.3", "1.2.3-rc1", "ab"])
def test_a_version_that_is_not_plain_is_refused(
    version: str, upload: Upload, folder: Path
) -> None:
    problem = assert_problem(upload(version=version), 400, "invalid_version")

    assert "version" in problem["fields"]
    assert_nothing_is_left(folder)


def test_a_version_that_is_taken_is_answered_with_the_next_free_one(
    upload: Upload, folder: Path
) -> None:
    upload(version="1.4.0")

    problem = assert_problem(upload(version="1.4.0"), 409, "version_taken")

    assert problem["next_version"] == "1.4.1"
    assert BuildJob.objects.count() == 1
    assert len(files_in(folder)) == 1  # the first one's source
    assert upload(version=problem["next_version"]).status_code == 202


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"versoin": "1.0.0"}, "unknown_field", "versoin"),
        ({"colour": "red"}, "unknown_field", "colour"),
        ({"code": "x"}, "unknown_field", "code"),
        ({"name": None}, "missing_field", "name"),
        ({"name": ""}, "missing_field", "name"),
        ({"source": None}, "missing_field", "source"),
        ({"agent_name": "other"}, "repeated_field", "agent_name"),
        ({"version": ["1.0.0", "1.0.1"]}, "repeated_field", "version"),
        ({"source": "a text"}, "invalid_field", "source"),
        ({"name": SimpleUploadedFile("n", b"x")}, "invalid_field", "name"),
        ({"changelog": "nul\x00"}, "invalid_field", "changelog"),
        ({"ports": "http"}, "invalid_field", "ports"),
    ],
)
def test_a_field_at_fault_is_named(
    fields: dict[str, Any], code: str, field: str, upload: Upload, folder: Path
) -> None:
    problem = assert_problem(upload(**fields), 422, code)

    assert field in problem["fields"]
    assert field in problem["detail"] or field == "agent_name"
    assert_nothing_is_left(folder)


def test_a_misspelled_field_is_told_its_right_name(upload: Upload) -> None:
    problem = assert_problem(upload(versoin="1.0.0"), 422, "unknown_field")

    assert "'version'" in problem["detail"]


def test_ports_out_of_range_are_refused(upload: Upload, folder: Path) -> None:
    assert_problem(upload(ports="70000"), 400, "invalid_ports")

    assert_nothing_is_left(folder)


def test_a_body_that_is_no_form_is_refused(as_owner: Client) -> None:
    response = as_owner.post(UPLOAD, {"name": "x"}, content_type="application/json")

    assert_problem(response, 415, "unsupported_media_type")


def test_another_owner_may_use_the_same_name(upload: Upload, as_owner: Client) -> None:
    from ...factories import make_user

    first = upload().json()
    as_owner.force_login(make_user("second"))

    second = upload().json()

    assert first["agent_id"] != second["agent_id"]
    assert second["new_version"] == "1.0.0"


def assert_nothing_is_left(folder: Path) -> None:
    for model in (Agent, AgentBuild, AgentVersion, BuildJob, JobEvent):
        assert not model.objects.exists(), model
    assert files_in(folder) == []
