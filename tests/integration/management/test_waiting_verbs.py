"""Is a job followed to its end, and does the command end as the job did?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from buildqueue.builds import failures
from buildqueue.models import Agent, AgentBuild, BuildJob
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor
from tests.integration.builds.conftest import World
from tests.support.commands import answered, documented_refusal, run

UPLOAD = ("--owner", "key:1", "--wait")


@pytest.fixture
def good(folder: Path) -> str:
    return str(folder)


@pytest.fixture
def unhealthy(folder: Path) -> str:
    (folder / "main.py").write_text("# UNHEALTHY\n")
    return str(folder)


def test_a_good_build_is_followed_and_told(at_work: World, good: str) -> None:
    told = run("agent", "upload", "echo", good, *UPLOAD, "--version", "1.2.3")

    job = BuildJob.objects.get()
    assert told.splitlines() == [
        f"echo 1.2.3: job {job.pk} is queued",
        f"follow it with `manage.py buildqueue logs -f {str(job.pk)[:8]}`",
        "working on upload",
        f"job {job.pk} is done: version 1.2.3",
    ]


def test_a_program_gets_one_document_when_all_is_over(
    at_work: World, good: str
) -> None:
    told = answered("agent", "upload", "echo", good, *UPLOAD)

    [end] = told["jobs"]
    assert (told["status"], end["status"], end["version"]) == ("done", "done", "1.0.0")
    assert end["job_id"] == told["job_id"]
    assert end["error_code"] is None


def test_a_bad_build_ends_with_its_reason_code_and_hint(
    at_work: World, unhealthy: str
) -> None:
    error, printed = documented_refusal("agent", "upload", "echo", unhealthy, *UPLOAD)

    build = AgentBuild.objects.get()
    code = build.error_code or ""
    assert error.returncode == 1
    assert "working on upload" in printed
    assert f"is failed at {build.phase}: {code}: {build.error_msg}" in str(error)
    assert f"hint: {failures.last_hint_of(code)}" in str(error)


def test_a_program_gets_the_reason_of_a_bad_build_as_data(
    at_work: World, unhealthy: str
) -> None:
    error, printed = documented_refusal(
        "agent", "upload", "echo", unhealthy, *UPLOAD, "--json"
    )

    told = json.loads(printed)
    [end] = told["jobs"]
    build = AgentBuild.objects.get()
    assert (error.returncode, told["status"]) == (1, "failed")
    assert (end["error_code"], end["phase"]) == (build.error_code, build.phase)
    assert end["hint"] == failures.last_hint_of(build.error_code or "")


def test_a_cancelled_job_did_not_go_well(
    at_work: World, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel(seconds: float) -> None:
        for job in BuildJob.objects.filter(completed_at=None):
            verbs.cancel(job.pk, actor=Actor(label="bob"), reason="enough")

    monkeypatch.setattr("buildqueue.management.logs_text.time.sleep", cancel)

    error, _printed = documented_refusal("agent", "upload", "echo", good, *UPLOAD)

    assert (error.returncode, "is cancelled" in str(error)) == (1, True)


def test_what_an_agent_is_told_to_do_is_waited_for(at_work: World, good: str) -> None:
    run("agent", "upload", "echo", good, *UPLOAD)

    def told(*verb: str) -> Any:
        return answered("agent", *verb, "--wait")["status"]

    assert told("scale", "echo", "2") == "done"
    assert told("restart", "echo") == "done"
    assert told("update", "echo", good) == "done"
    assert told("rollback", "echo") == "done"
    assert Agent.objects.get().version == "1.0.0"
    assert told("stop", "echo") == "done"
    assert Agent.objects.get().status == "stopped"
    assert told("start", "echo") == "done"
    assert told("build", "echo", good, "--version", "3.0.0") == "done"
    assert told("deploy", "echo", "3.0.0") == "done"
    assert Agent.objects.get().version == "3.0.0"
    assert told("delete", "echo", "--yes") == "done"
    assert not Agent.objects.live().exists()
