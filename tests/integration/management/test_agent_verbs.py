"""Can an owner's agents be built and deployed from a shell?"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser

from buildqueue.builds import secrets, sources
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentVersion,
    BuildJob,
)
from tests.factories import make_agent
from tests.support.commands import answered, refusal, run
from tests.support.zips import zipped

from .conftest import Typing, running_agent

SECRET = "xyzzy-plugh"


def upload(folder: object, *options: str, name: str = "echo") -> Any:
    return answered("agent", "upload", name, str(folder), "--owner", "anna", *options)


def test_a_folder_is_uploaded_in_the_owners_name(
    anna: AbstractUser, folder: Path
) -> None:
    told = upload(folder, "--version", "1.2.3", "--changelog", "the first")

    job, build = BuildJob.objects.get(), AgentBuild.objects.get()
    agent = Agent.objects.get()
    assert told == {
        "status": "queued",
        "agent_id": str(agent.pk),
        "agent_name": "echo",
        "owner_id": str(anna.pk),
        "job_id": str(job.pk),
        "job_ids": [str(job.pk)],
        "build_id": str(build.pk),
        "new_version": "1.2.3",
        "previous_version": None,
        "url": None,
    }
    assert (job.kind, job.owner_id, agent.owner_id) == (
        "upload",
        str(anna.pk),
        str(anna.pk),
    )
    assert AgentVersion.objects.get().changelog == "the first"
    assert "command line" in job.events.get(kind="enqueue").actor


@pytest.mark.parametrize("packed", ["zip", "tar", "stdin"])
def test_an_archive_is_uploaded_from_a_file_or_a_pipe(
    packed: str, anna: AbstractUser, folder: Path, tmp_path: Path, piped: Typing
) -> None:
    place = tmp_path / "source"
    if packed == "tar":
        with tarfile.open(place, "w:gz") as archive:
            archive.add(folder, "echo")
    else:
        place.write_bytes(zipped().getvalue())
    if packed == "stdin":
        piped(place.read_bytes())

    upload("-" if packed == "stdin" else place)

    assert sources.exists(AgentBuild.objects.get().source_key or "")


def test_people_read_what_is_queued_and_how_it_is_followed(
    anna: AbstractUser, folder: Path
) -> None:
    told = run("agent", "upload", "echo", str(folder), "--owner", "anna")

    job = BuildJob.objects.get()
    assert told.splitlines() == [
        f"echo 1.0.0: job {job.pk} is queued",
        f"follow it with `manage.py buildqueue logs -f {str(job.pk)[:8]}`",
    ]


@pytest.mark.parametrize(
    ("path", "why"),
    [("missing.zip", "cannot be read: No such file"), ("a\0b", "cannot be read")],
)
def test_a_source_that_is_not_there_is_named(
    path: str, why: str, anna: AbstractUser
) -> None:
    told = refusal("agent", "upload", "echo", path, "--owner", "anna")

    assert why in str(told)
    assert not Agent.objects.exists()


def test_nothing_is_read_from_a_terminal(anna: AbstractUser, piped: Typing) -> None:
    piped(is_terminal=True)

    error = refusal("agent", "upload", "echo", "-", "--owner", "anna")

    assert error.returncode == 2
    assert "nothing is sent" in str(error)


def test_a_folder_with_a_link_is_refused_and_leaves_nothing(
    anna: AbstractUser, folder: Path
) -> None:
    (folder / "passwords").symlink_to("/etc/passwd")

    assert "is a link" in str(
        refusal("agent", "upload", "echo", str(folder), "--owner", "anna")
    )
    assert not Agent.objects.exists()
    assert not BuildJob.objects.exists()


def test_what_the_instances_should_be_like_is_given_by_options(
    anna: AbstractUser, folder: Path
) -> None:
    limits = ["--port", "8001", "--port", "8002", "--replicas", "2", "--cpus", "0.5"]

    upload(folder, *limits, "--memory-mb", "256", "--writable", "--processes", "50")

    spec = BuildJob.objects.get().payload["spec"]
    assert {name: value for name, value in spec.items() if value is not None} == {
        "ports": [8001, 8002],
        "replicas": 2,
        "memory_mb": 256,
        "cpus": 0.5,
        "processes": 50,
        "writable": True,
    }


def test_a_limit_that_cannot_be_is_refused_by_name(
    anna: AbstractUser, folder: Path
) -> None:
    given = ["agent", "upload", "echo", str(folder), "--owner", "anna"]

    assert "replicas: " in str(refusal(*given, "--replicas", "0"))
    assert "writable_path: " in str(refusal(*given, "--writable-path", "/"))
    assert not Agent.objects.exists()


def test_variables_come_from_files_and_the_commands_own_environment(
    anna: AbstractUser, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my.env"
    file.write_text(f"# mine\nA={SECRET}\nB=from the file\n")
    monkeypatch.setenv("B", "from the shell")

    told = run(
        *("agent", "upload", "echo", str(folder), "--owner", "anna"),
        *("--env-file", str(file), "--env", "B"),
    )

    stored = AgentBuild.objects.get().secrets_env
    found = secrets.decrypt_env(str(anna.pk), stored)
    assert found == {"A": SECRET, "B": "from the shell"}
    assert SECRET not in told


def test_a_variable_that_is_not_set_is_wrong_usage(
    anna: AbstractUser, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOBODY_SETS_ME", raising=False)

    error = refusal(
        *("agent", "upload", "echo", str(folder), "--owner", "anna"),
        *("--env", "NOBODY_SETS_ME"),
    )

    assert error.returncode == 2
    assert "no variable NOBODY_SETS_ME" in str(error)


def test_a_repository_is_cloned_with_a_token_that_stands_nowhere_in_clear(
    anna: AbstractUser, piped: Typing
) -> None:
    piped(f"{SECRET}\n")

    told = run(
        *("agent", "clone", "echo", "--owner", "anna", "--token-stdin", "--json"),
        *("--git", "https://github.com/team/app", "--ref", "main"),
    )

    job, build = BuildJob.objects.get(), AgentBuild.objects.get()
    assert job.payload["source"]["url"] == "https://github.com/team/app"
    assert job.payload["source"]["ref"] == "main"
    assert secrets.decrypt(str(anna.pk), build.source_token or "") == SECRET
    assert SECRET not in f"{told} {job.payload} {build.source_token}"


def test_a_repository_is_opened_by_a_token_of_the_environment_or_a_kept_secret(
    anna: AbstractUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    secrets.set_secret(str(anna.pk), "forge", SECRET)
    clone = ("agent", "clone", "echo", "--owner", "anna")
    git = ("--git", "https://github.com/team/app")

    run(*clone, *git, "--token-env", "MY_TOKEN")
    run(*clone, *git, "--secret", "forge")

    by_token, by_secret = AgentBuild.objects.order_by("created_at")
    assert secrets.decrypt(str(anna.pk), by_token.source_token or "") == SECRET
    assert (by_secret.source_secret, by_secret.source_token) == ("forge", None)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--ref", "main"], "go with --git"),
        (
            ["--git", "https://github.com/a/b", "--secret", "x", "--token-env", "HOME"],
            "",
        ),
        (["-", "--git", "https://github.com/a/b"], "not both"),
        (["-", "--git", "https://github.com/a/b", "--token-stdin"], "--token-env"),
    ],
)
def test_contradicting_sources_are_wrong_usage(
    given: list[str], why: str, anna: AbstractUser, piped: Typing
) -> None:
    make_agent(str(anna.pk), name="echo")

    error = refusal("agent", "update", "echo", *given)

    assert error.returncode == 2
    assert why in str(error)


def test_an_update_counts_the_version_up(anna: AbstractUser, folder: Path) -> None:
    running_agent(anna)

    told = answered("agent", "update", "anna/echo", str(folder), "--version", "minor")

    assert (told["new_version"], told["previous_version"]) == ("1.1.0", "1.0.0")
    assert BuildJob.objects.get().kind == "update"


def test_an_update_without_a_source_comes_from_where_it_came_before(
    anna: AbstractUser, folder: Path
) -> None:
    agent = running_agent(anna)

    assert "source" in str(refusal("agent", "update", str(agent.pk)))
    assert not BuildJob.objects.exists()


def test_a_version_is_built_for_an_agent_that_is_new(
    anna: AbstractUser, folder: Path
) -> None:
    told = answered("agent", "build", "echo", str(folder), "--owner", "anna")

    assert told["new_version"] == "1.0.0"
    assert BuildJob.objects.get().kind == "standalone_build"
    assert Agent.objects.get().status == "registered"


def test_a_refused_build_leaves_no_agent_behind(
    anna: AbstractUser, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.zip"
    bad.write_text("this is no zip")

    refusal("agent", "build", "echo", str(bad), "--owner", "anna")

    assert not Agent.objects.exists()


def test_an_agent_goes_back_and_on_to_a_version_that_is_built(
    anna: AbstractUser,
) -> None:
    agent = running_agent(anna)
    AgentVersion.objects.create(agent=agent, version="2.0.0", status="pushed")

    back = answered("agent", "rollback", "echo", "--reason", "it is slow")
    on = answered("agent", "deploy", "echo", "2.0.0")

    assert (back["new_version"], on["new_version"]) == ("0.9.0", "2.0.0")
    first, second = BuildJob.objects.order_by("seq")
    assert (first.kind, second.kind) == ("rollback", "rollback")
    assert first.payload["reason"] == "it is slow"
    assert "no version 3.0.0" in str(refusal("agent", "deploy", "echo", "3.0.0"))
