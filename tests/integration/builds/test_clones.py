"""Does a repository become a running agent, and do legacy rows still execute?"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from buildqueue.builds import running, secrets
from buildqueue.builds.submission import GitRequest, Submission, submit_clone
from buildqueue.exceptions import Refused
from buildqueue.models import Agent, AgentBuild, AgentVersion, BuildJob
from buildqueue.queue import verbs
from tests.support.gitserver import GitServer, git_server
from tests.support.zips import zipped

from .acting import fresh, rollback, standalone, update, versions_of
from .conftest import ANNA, World, agent_of, build_of, job_of, upload, version_at

TOKEN = "github_pat_a1B2c3D4e5F6"


@pytest.fixture
def server(world: World, settings: Any) -> Iterator[GitServer]:
    """Return a git server that the settings allow."""
    with git_server() as made:
        settings.BUILDQUEUE = {**settings.BUILDQUEUE, **made.settings}
        yield made


def clone(url: str, name: str = "echo", **options: Any) -> Submission:
    """Submit a repository."""
    git = {key: options.pop(key) for key in list(options) if key in GIT}
    options.setdefault("caller", ANNA)
    return submit_clone(
        owner_id="1", name=name, git=GitRequest(url=url, **git), **options
    )


GIT = ("ref", "commit", "token", "secret")


def test_a_repository_becomes_a_running_agent(world: World, server: GitServer) -> None:
    repository = server.repository("team/echo")
    commit = repository.commit({"main.py": "# hello\n"})

    cloned = clone(server.url("team/echo"))
    world.work()

    build, agent = build_of(cloned), agent_of(cloned)
    assert (job_of(cloned).status, job_of(cloned).kind) == ("done", "github_clone")
    assert (build.commit_hash, build.github_url) == (commit, server.url("team/echo"))
    assert build.source_key
    assert (agent.status, version_at(agent.url)) == ("running", "1.0.0")


def test_branch_tag_and_commit_are_told_apart(world: World, server: GitServer) -> None:
    repository = server.repository("team/echo")
    first = repository.commit({"main.py": "# 1\n"})
    repository.tag("v1")
    other = repository.commit({"main.py": "# 2\n"}, branch="next")
    newest = repository.commit({"main.py": "# 3\n"})
    url = server.url("team/echo")

    wanted = [
        ({"ref": "v1"}, first),
        ({"ref": "next"}, other),
        ({"commit": first}, first),
    ]
    for number, (options, commit) in enumerate([*wanted, ({}, newest)]):
        cloned = clone(url, name=f"agent-{number}", **options)
        world.work()
        assert build_of(cloned).commit_hash == commit


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("AgentCard.json", json.dumps({"version": "3.1.4"})),
        ("pyproject.toml", '[project]\nname = "x"\nversion = "3.1.4"\n'),
        ("Cargo.toml", '[package]\nname = "x"\nversion = "3.1.4"\n'),
        ("package.json", json.dumps({"version": "3.1.4"})),
    ],
)
def test_the_sources_own_version_is_taken_when_it_is_free(
    world: World, server: GitServer, file: str, content: str
) -> None:
    server.repository("team/echo").commit({"main.py": "# 1\n", file: content})

    cloned = clone(server.url("team/echo"))
    assert cloned.version == "1.0.0"
    world.work()
    again = clone(server.url("team/echo"))
    world.work()

    agent = agent_of(cloned)
    assert (build_of(cloned).version_tag, build_of(again).version_tag) == (
        "3.1.4",
        "3.1.5",
    )
    assert versions_of(agent) == {"3.1.4": "archived", "3.1.5": "active"}
    assert version_at(agent.url) == "3.1.5"


def test_the_version_that_was_asked_for_is_never_another(
    world: World, server: GitServer
) -> None:
    card = {"AgentCard.json": json.dumps({"version": "3.1.4"})}
    server.repository("team/echo").commit({"main.py": "# 1\n", **card})

    cloned = clone(server.url("team/echo"), version="7.0.0")
    world.work()

    assert (agent_of(cloned).version, versions_of(cloned.agent)) == (
        "7.0.0",
        {"7.0.0": "active"},
    )


@pytest.mark.parametrize("how", ["token", "secret"])
def test_a_private_repository_is_fetched_and_its_token_is_nowhere(
    world: World, server: GitServer, how: str
) -> None:
    server.repository("team/echo").commit({"main.py": "# 1\n"})
    server.require_token(TOKEN)
    secrets.set_secret("1", "GIT", TOKEN)
    options = {"token": TOKEN} if how == "token" else {"secret": "GIT"}

    cloned = clone(server.url("team/echo"), **options)
    world.work()

    assert job_of(cloned).status == "done", job_of(cloned).error_msg
    assert TOKEN not in json.dumps(job_of(cloned).payload)
    assert TOKEN not in str(AgentBuild.objects.values())


def test_a_wrong_token_fails_with_its_code_and_is_not_told(
    world: World, server: GitServer
) -> None:
    server.repository("team/echo").commit({"main.py": "# 1\n"})
    server.require_token("another")

    cloned = clone(server.url("team/echo"), token=TOKEN)
    world.work()

    job, build = job_of(cloned), build_of(cloned)
    assert (job.error_code, build.phase) == ("git_access_denied", "fetch")
    assert build.hint
    assert TOKEN not in f"{job.error_msg} {build.error_msg} {build.logs}"
    assert agent_of(cloned).status == "failed"


def test_a_secret_that_is_not_set_is_refused_at_once(
    world: World, server: GitServer
) -> None:
    with pytest.raises(Refused) as refused:
        clone(server.url("team/echo"), secret="NONE")

    assert refused.value.code == "secret_missing"
    assert not BuildJob.objects.exists()


def test_an_update_without_a_source_takes_the_repository_of_now(
    world: World, server: GitServer
) -> None:
    repository = server.repository("team/echo")
    repository.commit({"main.py": "# 1\n"})
    server.require_token(TOKEN)
    cloned = clone(server.url("team/echo"), ref="main", token=TOKEN)
    world.work()
    commit = repository.commit({"main.py": "# 2\n"})

    updated = update(fresh(cloned.agent), source=None)
    world.work()

    assert job_of(updated).status == "done", job_of(updated).error_msg
    assert build_of(updated).commit_hash == commit
    assert version_at(agent_of(cloned).url) == "1.0.1"


def test_a_repository_that_failed_is_not_where_an_agent_comes_from(
    world: World, server: GitServer
) -> None:
    made = upload()
    world.work()
    git = GitRequest(url=server.url("team/missing"))
    update(fresh(made.agent), source=None, git=git)
    world.work()

    with pytest.raises(Refused) as refused:
        update(fresh(made.agent), source=None)

    assert refused.value.code == "source_required"


def test_a_standalone_build_of_a_repository_waits(
    world: World, server: GitServer
) -> None:
    server.repository("team/echo").commit({"main.py": "# 1\n"})
    agent = Agent.objects.create(owner_id="1", name="echo")
    git = GitRequest(url=server.url("team/echo"))

    apart = standalone(agent, source=None, git=git)
    world.work()

    assert (job_of(apart).status, versions_of(agent)) == ("done", {"1.0.0": "pushed"})
    assert fresh(agent).status == "registered"
    rollback(agent, "1.0.0")
    world.work()
    assert (fresh(agent).status, version_at(fresh(agent).url)) == ("running", "1.0.0")


def test_a_killed_build_goes_on_with_the_commit_it_began_with(
    world: World, server: GitServer
) -> None:
    from .conftest import Crash

    repository = server.repository("team/echo")
    first = repository.commit({"main.py": "# 1\n"})
    cloned = clone(server.url("team/echo"))

    def push_and_die() -> None:
        repository.commit({"main.py": "# 2\n"})
        raise Crash

    world.interfere("build", push_and_die)
    world.work()

    assert job_of(cloned).status == "done"
    assert build_of(cloned).commit_hash == first


def _legacy(payload: dict[str, Any], agent: Agent) -> tuple[BuildJob, AgentBuild]:
    build_id = uuid.uuid4()
    build = AgentBuild.objects.create(id=build_id, agent=agent, version_tag="1.2.0")
    job = BuildJob.objects.create(
        agent=agent,
        owner_id=agent.owner_id,
        payload={
            "build_id": str(build_id),
            "agent_id": str(agent.pk),
            "owner_id": agent.owner_id,
            "upload_id": str(build_id),
            "name": agent.name,
            "ports": [8000],
            "env": {"PLAIN": "of another system"},
            **payload,
        },
    )
    return job, build


def test_a_legacy_clone_runs(world: World, tmp_path: Path) -> None:
    archive = tmp_path / "source.tar.gz"
    archive.write_bytes(zipped({"main.py": "# legacy\n"}).getvalue())
    agent = Agent.objects.create(owner_id="1", name="echo", status="deploying")
    job, build = _legacy(
        {
            "kind": "Clone",
            "tar_gz_path": str(archive),
            "image_tag": "nasiko/echo:1.2.0",
        },
        agent,
    )

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    assert (job.status, build.status, job.error_msg) == ("done", "success", None)
    assert version_at(fresh(agent).url) == "1.2.0"
    assert world.runtime.specs[-1].env == {"PLAIN": "of another system"}
    assert build.source_key  # another host could build it now
    assert "of another system" not in json.dumps(job.payload)
    running.restart_agent(fresh(agent), actor=ANNA)
    world.work()
    assert world.runtime.specs[-1].env == {"PLAIN": "of another system"}
    assert "of another" not in str(fresh(agent).secrets_env)


def test_legacy_jobs_of_one_agent_run_one_after_the_other(
    world: World, tmp_path: Path
) -> None:
    archive = tmp_path / "source.tar.gz"
    archive.write_bytes(zipped({"main.py": "# legacy\n"}).getvalue())
    agent = Agent.objects.create(owner_id="1", name="echo", status="deploying")
    common = {"kind": "Clone", "tar_gz_path": str(archive)}
    first, _ = _legacy({**common, "image_tag": "nasiko/echo:1.2.0"}, agent)
    second, _ = _legacy({**common, "image_tag": "nasiko/echo:1.3.0"}, agent)
    claimed: list[BuildJob | None] = []

    world.interfere("build", lambda: claimed.append(world.run_next()))
    world.work()

    first.refresh_from_db()
    second.refresh_from_db()
    assert claimed == [None]
    assert first.serial_key == second.serial_key == f"agent:{agent.pk}"
    assert (first.status, second.status) == ("done", "done")
    assert version_at(fresh(agent).url) == "1.3.0"


def test_a_retry_of_a_legacy_build_has_its_environment(
    world: World, tmp_path: Path
) -> None:
    archive = tmp_path / "source.tar.gz"
    archive.write_bytes(zipped({"main.py": "UNHEALTHY\n"}).getvalue())
    agent = Agent.objects.create(owner_id="1", name="echo", status="deploying")
    payload = {
        "kind": "Clone",
        "tar_gz_path": str(archive),
        "image_tag": "nasiko/echo:1.2.0",
    }
    job, _ = _legacy(payload, agent)
    world.work()
    job.refresh_from_db()
    assert (job.status, job.payload.get("env")) == ("failed", None)

    verbs.retry(job.pk, actor=ANNA)
    world.work()

    assert world.runtime.specs[-1].env == {"PLAIN": "of another system"}


def test_a_refused_legacy_clone_restores_what_the_agent_was(world: World) -> None:
    agent = Agent.objects.create(
        owner_id="1", name="echo", status="deploying", version="latest"
    )
    job, _ = _legacy(
        {
            "kind": "GithubClone",
            "repo_full_name": "acme/echo; rm",
            "branch": "main",
            "image_tag": "nasiko/echo:latest",
            "version_override": None,
            "prior_version": "0.9.0",
            "prior_image": "nasiko/echo:0.9.0",
            "prior_status": "running",
        },
        agent,
    )

    world.work()

    job.refresh_from_db()
    assert job.status == "failed"
    after = fresh(agent)
    assert (after.status, after.version, after.image) == (
        "running",
        "0.9.0",
        "nasiko/echo:0.9.0",
    )
    assert not AgentVersion.objects.exists()
