"""Can an owner's agents be run, deleted, changed and opened from a shell?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser

from buildqueue.builds import secrets
from buildqueue.models import Agent, AgentDeployment, AgentGrant, BuildJob
from tests.factories import make_agent
from tests.support.commands import answered, refusal, run

from .conftest import Typing, running_agent

SECRET = "xyzzy-plugh"


# -- running ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "kind"), [("restart", "agent_start"), ("scale", "agent_scale")]
)
def test_what_runs_is_replaced_and_scaled(
    verb: str, kind: str, anna: AbstractUser
) -> None:
    running_agent(anna)

    told = answered("agent", verb, "echo", *(["3"] if verb == "scale" else []))

    job = BuildJob.objects.get()
    assert (told["status"], told["job_id"]) == ("queued", str(job.pk))
    assert job.kind == kind


def test_what_does_not_run_is_started_and_scaled_for_its_next_start(
    anna: AbstractUser,
) -> None:
    agent = running_agent(anna)
    assert "is running" in str(refusal("agent", "start", "echo"))
    AgentDeployment.objects.update(status="stopped")

    scaled = answered("agent", "scale", "echo", "2")
    started = answered("agent", "start", "echo")

    agent.refresh_from_db()
    assert (scaled["status"], scaled["job_id"], agent.replicas) == ("done", None, 2)
    assert BuildJob.objects.get().pk.hex == started["job_id"].replace("-", "")


def test_an_agent_is_stopped_on_its_host(anna: AbstractUser) -> None:
    running_agent(anna)
    AgentDeployment.objects.update(host="here")

    told = answered("agent", "stop", "echo", "--reason", "too loud")

    job = BuildJob.objects.get()
    assert (job.kind, told["job_ids"]) == ("agent_stop", [str(job.pk)])
    assert job.events.filter(title="too loud").exists()


def test_an_agent_that_has_no_process_is_stopped_at_once(anna: AbstractUser) -> None:
    make_agent(str(anna.pk), name="echo")

    assert run("agent", "stop", "echo") == "echo: stop; no process of it runs\n"


# -- deleting --------------------------------------------------------------------------


def test_where_nobody_can_be_asked_a_deletion_needs_yes(
    anna: AbstractUser, piped: Typing
) -> None:
    make_agent(str(anna.pk), name="echo")

    error = refusal("agent", "delete", "echo")

    assert (error.returncode, "--yes missing" in str(error)) == (2, True)
    assert Agent.objects.live().exists()


@pytest.mark.parametrize(
    ("said", "is_deleted"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("", False)],
)
def test_on_a_terminal_a_deletion_is_asked_about(
    said: str, is_deleted: bool, anna: AbstractUser, piped: Typing, capsys: Any
) -> None:
    agent = make_agent(str(anna.pk), name="echo")
    piped(said, is_terminal=True)

    if is_deleted:
        run("agent", "delete", "echo")
    else:
        assert "not confirmed" in str(refusal("agent", "delete", "echo"))

    assert f"delete agent {anna.pk}/echo ({agent.pk})" in capsys.readouterr().err
    assert Agent.objects.live().exists() is not is_deleted


def test_a_version_is_deleted_unless_it_runs(anna: AbstractUser) -> None:
    running_agent(anna)
    delete = ("agent", "delete-version", "echo")

    assert run(*delete, "0.9.0", "--yes") == "echo: 0.9.0 is deleted\n"
    assert "is the active one" in str(refusal(*delete, "1.0.0", "--yes"))


# -- its environment and who may see it ------------------------------------------------


def test_variables_are_changed_and_shown_by_name(
    anna: AbstractUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent(str(anna.pk), name="echo")
    file = tmp_path / "my.env"
    file.write_text(f"A=1\nB={SECRET}\n")
    monkeypatch.setenv("C", "3")

    told = run("agent", "env", "echo", "--env-file", str(file), "--env", "C")
    run("agent", "env", "echo", "--remove", "A")

    agent.refresh_from_db()
    found = secrets.decrypt_env(str(anna.pk), agent.secrets_env)
    assert found == {"B": SECRET, "C": "3"}
    assert told.splitlines()[:3] == ["A", "B", "C"]
    assert "a restart" in told
    assert answered("agent", "env", "echo")["env"] == ["B", "C"]
    assert SECRET not in told + run("agent", "show", "echo", "--json")


def test_a_variable_is_not_set_and_removed_at_once(
    anna: AbstractUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_agent(str(anna.pk), name="echo")
    monkeypatch.setenv("C", "3")

    error = refusal("agent", "env", "echo", "--env", "C", "--remove", "C")

    assert (error.returncode, "both set and removed: C" in str(error)) == (2, True)


def test_an_agent_is_opened_and_closed_again(
    anna: AbstractUser, django_user_model: Any
) -> None:
    bob = django_user_model.objects.create_user("bob")
    make_agent(str(anna.pk), name="echo")

    assert run("agent", "grant", "echo", "--user", "bob", "--manage") == (
        f"echo: {bob.pk} may manage it\n"
    )
    assert "everybody may look at it" in run("agent", "grant", "echo", "--everybody")
    assert [
        each["grantee_id"] for each in answered("agent", "grants", "echo")["grants"]
    ]
    assert answered("agent", "revoke", "echo", "--user", "bob")["revoked"]
    assert not answered("agent", "revoke", "echo", "--user", "bob")["revoked"]
    assert AgentGrant.objects.get().grantee_id == "*"
    error = refusal("agent", "grant", "echo", "--everybody", "--manage")
    assert error.returncode == 2
