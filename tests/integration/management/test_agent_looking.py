"""Is the agent found that is meant, and told as it is, to people and to programs?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser

from buildqueue.executors import base, host
from buildqueue.models import Agent, AgentDeployment, AgentVersion
from tests.factories import make_agent, make_build, make_job, make_user
from tests.support.commands import answered, refusal, run

SECRET = "xyzzy-plugh"


@pytest.fixture
def echo(anna: AbstractUser) -> Agent:
    return make_agent(str(anna.pk), name="echo")


def shown(typed: str) -> str:
    return str(answered("agent", "show", typed)["id"])


# -- which one -------------------------------------------------------------------------


def test_an_agent_is_named_in_each_way(echo: Agent, anna: AbstractUser) -> None:
    ways = [str(echo.pk), echo.pk.hex, str(echo.pk)[:8], "echo"]

    for typed in [*ways, "anna/echo", f"{anna.pk}/echo", f"key:{anna.pk}/echo"]:
        assert shown(typed) == str(echo.pk), typed


def test_a_name_of_several_owners_must_say_whose(echo: Agent) -> None:
    bob = make_user("bob")
    other = make_agent(str(bob.pk), name="echo")

    told = str(refusal("agent", "show", "echo"))

    assert f"{echo.owner_id}/echo" in told
    assert f"{bob.pk}/echo" in told
    assert shown("bob/echo") == str(other.pk)


def test_a_name_goes_before_the_beginning_of_an_id(
    echo: Agent, anna: AbstractUser
) -> None:
    named = make_agent(str(anna.pk), name=str(echo.pk)[:8])

    assert shown(str(echo.pk)[:8]) == str(named.pk)


def test_what_was_deleted_answers_to_its_whole_id_alone(echo: Agent) -> None:
    run("agent", "delete", "echo", "--yes")

    assert "no agent is named" in str(refusal("agent", "show", "echo"))
    assert "no agent" in str(refusal("agent", "show", str(echo.pk)[:8]))
    assert answered("agent", "show", str(echo.pk))["deleted_at"]


@pytest.mark.parametrize("typed", ["bob/echo", "anna/other", "nobody", "zz", "/", ""])
def test_nobody_is_found_by_a_wrong_name(typed: str, echo: Agent) -> None:
    told = str(refusal("agent", "show", typed))

    assert "no agent" in told


def test_a_mistyped_owner_owns_nothing_but_anothers_systems_key_may(
    echo: Agent, piped: Any
) -> None:
    upload = ("agent", "build", "new", "-", "--owner")

    told = str(refusal("secret", "list", "--owner", "annna"))

    assert "no user has the name or key 'annna'" in told
    assert "key:annna" in told
    assert "no user" in str(refusal(*upload, "annna"))
    assert answered("secret", "list", "--owner", "key:annna")["owner_id"] == "annna"


def test_a_key_goes_before_a_name_that_looks_like_it(anna: AbstractUser) -> None:
    make_user(str(anna.pk))

    told = answered("secret", "list", "--owner", str(anna.pk))

    assert told["owner_id"] == str(anna.pk)


# -- how it is told --------------------------------------------------------------------


def test_the_list_is_of_live_agents_of_an_owner(echo: Agent) -> None:
    gone = make_agent(echo.owner_id, name="gone", deleted_at=echo.created_at)
    other = make_agent("other", name="other")

    mine = answered("agent", "list", "--owner", "anna")["agents"]
    all_of_them = answered("agent", "list", "--deleted")["agents"]
    head, *rows = run("agent", "list").splitlines()

    assert [each["id"] for each in mine] == [str(echo.pk)]
    assert {each["id"] for each in all_of_them} == {
        str(each.pk) for each in (echo, gone, other)
    }
    assert head.split() == ["id", "owner", "name", "status", "version", "url"]
    assert {row.split()[0] for row in rows} == {str(echo.pk), str(other.pk)}
    assert len(answered("agent", "list", "--limit", "1")["agents"]) == 1


def test_an_agent_is_shown_with_its_deployment_and_failed_build(echo: Agent) -> None:
    build = make_build(
        echo,
        version_tag="1.1.0",
        status="failed",
        completed_at=echo.created_at,
        phase="build",
        exit_code=1,
        error_code="dependency_failed",
        error_msg="no such package\nat all",
        hint="look at requirements.txt",
        github_url=f"https://user:{SECRET}@github.com/a/b?token={SECRET}",
        source_token=SECRET,
    )
    AgentDeployment.objects.create(
        agent=echo, build=build, status="crashed", spec_env=["B", "A"]
    )

    text, told = run("agent", "show", "echo"), answered("agent", "show", "echo")

    assert "dependency_failed" in text
    assert "look at requirements.txt" in text
    assert told["build"]["source"]["url"] == "https://github.com/a/b"
    assert (told["build"]["error_code"], told["build"]["exit_code"]) == (
        "dependency_failed",
        1,
    )
    assert told["deployment"]["env"] == ["A", "B"]
    assert SECRET not in text + str(told)


def test_nothing_that_a_row_holds_moves_a_terminal(echo: Agent) -> None:
    Agent.objects.update(description="\x1b]0;owned\x07\x1b[2Jfine")
    make_build(echo, error_msg="\x1b[2Jbad", phase="\x1b[1Abuild")

    for verb in ("show", "builds", "list"):
        text = run("agent", verb, *(["echo"] if verb != "list" else []))
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "\x1b" not in run("agent", "show", "echo", "--json")


def test_history_is_listed_newest_first(echo: Agent) -> None:
    job = make_job(agent_id=echo.pk)
    older = make_build(echo, version_tag="1.0.0")
    newer = make_build(echo, version_tag="1.1.0", job=job, commit_hash="c" * 40)
    first = AgentDeployment.objects.create(agent=echo, build=older, status="stopped")
    second = AgentDeployment.objects.create(agent=echo, build=newer, status="running")
    AgentVersion.objects.create(
        agent=echo, version="1.1.0", status="active", is_active=True
    )

    builds = answered("agent", "builds", "echo")["builds"]
    deployments = answered("agent", "deployments", "echo")["deployments"]
    versions = answered("agent", "versions", "echo")

    assert [each["id"] for each in builds] == [str(newer.pk), str(older.pk)]
    assert [each["id"] for each in deployments] == [str(second.pk), str(first.pk)]
    assert deployments[0]["version"] == "1.1.0"
    assert [each["version"] for each in versions["versions"]] == ["1.1.0"]
    assert versions["next"] == {"patch": "1.1.1", "minor": "1.2.0", "major": "2.0.0"}
    assert f"  {str(job.pk)[:8]}  {'c' * 12}" in run("agent", "builds", "echo")
    assert "next: patch 1.1.1, minor 1.2.0" in run("agent", "versions", "echo")
    assert "running" in run("agent", "deployments", "echo")


# -- what it prints --------------------------------------------------------------------


class Runtime:
    """Tells what it was asked for."""

    def logs(self, workload_id: str, instance_id: str, tail: int) -> list[str]:
        return [f"{workload_id} {instance_id}", "\x1b[2Jlast"][-tail:]


def test_the_output_is_that_of_the_running_instance_on_this_host(
    echo: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = make_build(echo)
    AgentDeployment.objects.create(agent=echo, build=build, status="stopped")
    running = AgentDeployment.objects.create(
        agent=echo, build=build, status="running", host=host.host_id()
    )
    monkeypatch.setattr(base, "runtime", Runtime)

    assert run("agent", "logs", "echo").splitlines() == [
        f"{echo.pk} {running.pk}",
        "last",
    ]
    assert run("agent", "logs", "echo", "--lines", "1") == "last\n"
    assert answered("agent", "logs", "echo")["deployment_id"] == str(running.pk)


def test_what_runs_elsewhere_or_not_at_all_is_not_asked(echo: Agent) -> None:
    assert "does not run" in str(refusal("agent", "logs", "echo"))
    AgentDeployment.objects.create(
        agent=echo, build=make_build(echo), status="running", host="far away"
    )

    assert "runs on host far away" in str(refusal("agent", "logs", "echo"))
    assert not host.in_use()
