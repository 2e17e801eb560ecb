"""Does an instance get the environment that it should have, whole or not at all?"""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from django.core import serializers
from django.test import override_settings

from buildqueue.builds import secrets
from buildqueue.builds.environment import environment_of
from buildqueue.builds.settings_of import set_env
from buildqueue.exceptions import Refused, Rejected, Unavailable
from buildqueue.models import Agent, McpConnector
from buildqueue.queue.outcomes import Actor
from tests.factories import make_agent, make_connector
from tests.support.races import race

HERE = __name__
BERT = Actor(label="bert", id="2")

pytestmark = pytest.mark.usefixtures("committed")


def gateway(target: Agent | McpConnector) -> dict[str, str]:
    """Provide what the host knows of the target."""
    return {"GATEWAY": f"http://gateway/{target.owner_id}", "SHARED": "host's"}


def second(target: Agent | McpConnector) -> dict[str, str]:
    """Provide something over the first."""
    return {"GATEWAY": "second"}


def raising(target: Agent | McpConnector) -> dict[str, str]:
    """Fail with words that hold a secret."""
    raise RuntimeError("cannot reach db://user:s3cret@host")


def odd_none(target: Agent | McpConnector) -> Any:
    """Give nothing."""


def odd_values(target: Agent | McpConnector) -> Any:
    """Give a number."""
    return {"A": 5}


def odd_names(target: Agent | McpConnector) -> Any:
    """Give a name that no process can be given."""
    return {"A=B": "x"}


def odd_nul(target: Agent | McpConnector) -> Any:
    """Give a value that no process can be given."""
    return {"A": "x\0y"}


def providing(*names: str) -> override_settings:
    """Return settings with these providers of this module."""
    paths = [name if "." in name else f"{HERE}.{name}" for name in names]
    return override_settings(BUILDQUEUE={"ENV_PROVIDERS": paths})


@pytest.fixture
def agent(committed: None) -> Agent:
    """Return an agent of anna's with an environment."""
    env = {"SHARED": "agent's", "TOKEN": "-----BEGIN-----\nkey\n"}
    return make_agent("anna", secrets_env=secrets.encrypt_env("anna", env))


def test_the_build_goes_before_the_agent_and_the_agent_before_the_host(
    agent: Agent,
) -> None:
    with providing("gateway", "second"):
        alone = environment_of(agent, {})
        built = environment_of(
            agent, secrets.encrypt_env("anna", {"SHARED": "build's"})
        )

    assert alone == {
        "GATEWAY": "second",
        "SHARED": "agent's",
        "TOKEN": "-----BEGIN-----\nkey\n",
    }
    assert built == alone | {"SHARED": "build's"}


def test_what_the_host_provides_is_stored_nowhere(agent: Agent) -> None:
    with providing("gateway"):
        environment_of(agent, {})

    agent.refresh_from_db()
    assert set(agent.secrets_env) == {"SHARED", "TOKEN"}
    assert "gateway" not in serializers.serialize("json", Agent.objects.all())


@pytest.mark.parametrize("owner", ["anna", None])
def test_a_connector_has_one_too_even_when_it_is_nobodys(owner: str | None) -> None:
    own = secrets.encrypt_env(owner or "", {"A": "own", "B": "own"})
    connector = make_connector(owner, build_secrets_env=own)

    with providing("gateway"):
        found = environment_of(connector, secrets.encrypt_env(owner or "", {"B": "b"}))

    assert found == {
        "GATEWAY": f"http://gateway/{owner}",
        "SHARED": "host's",
        "A": "own",
        "B": "b",
    }


@pytest.mark.parametrize(
    "provider",
    ["raising", "odd_none", "odd_values", "odd_names", "odd_nul", "no.such.module"],
)
def test_a_provider_that_fails_is_told_without_its_words(
    agent: Agent, provider: str
) -> None:
    with providing("gateway", provider), pytest.raises(Unavailable) as failed:
        environment_of(agent, {})

    printed = "".join(traceback.format_exception(failed.value))
    assert failed.value.code == "environment_unavailable"
    assert provider in str(failed.value)
    assert "s3cret" not in printed


def test_one_secret_that_cannot_be_read_refuses_the_environment(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(owner_id="bert")
    agent.refresh_from_db()

    with pytest.raises(Rejected) as refused:
        environment_of(agent, {})

    assert refused.value.code == "secret_unreadable"


def test_setting_merges_removes_and_tells_the_names_alone(agent: Agent) -> None:
    names = set_env(
        agent, {"NEW": "1", "SHARED": "2", "TOKEN": None, "NONE": None}, actor=BERT
    )

    agent.refresh_from_db()
    assert names == ["NEW", "SHARED"]
    assert secrets.decrypt_env("anna", agent.secrets_env) == {"NEW": "1", "SHARED": "2"}


def test_a_name_that_is_there_though_it_may_not_be_given_can_be_removed() -> None:
    old = make_agent(secrets_env={"PATH": "?", "odd name": "?"})

    assert set_env(old, {"PATH": None, "odd name": None}, actor=BERT) == []


@pytest.mark.parametrize(
    "env",
    [
        {"GOOD": "1", "PORT": "2"},
        {"GOOD": "1", "BAD": "\0"},
        {f"N{i}": "x" for i in range(99)},  # two are there
        {f"N{i}": "x" * 32_000 for i in range(17)},
    ],
)
def test_a_refused_environment_changes_nothing(
    agent: Agent, env: dict[str, str]
) -> None:
    with pytest.raises(Refused) as refused:
        set_env(agent, env, actor=BERT)

    before = agent.secrets_env
    agent.refresh_from_db()
    assert refused.value.code == "invalid_environment"
    assert agent.secrets_env == before


def test_a_deleted_agent_has_no_environment_to_set(agent: Agent) -> None:
    Agent.objects.update(deleted_at="2026-01-01T00:00:00Z")

    with pytest.raises(Refused) as refused:
        set_env(agent, {"A": "1"}, actor=BERT)

    assert (refused.value.code, refused.value.status) == ("agent_deleted", 409)


def test_the_log_tells_who_changed_which_names_and_no_value(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="buildqueue"):
        set_env(agent, {"A": "very-secret", "TOKEN": None}, actor=BERT)

    [record] = caplog.records
    told = vars(record)
    assert (told["actor"], told["names"]) == ("bert", ["A", "TOKEN"])
    assert "very-secret" not in str(told)


def test_all_of_them_count() -> None:
    made = make_agent("anna")

    race(4, lambda number: set_env(made, {f"N{number}": "x"}, actor=BERT))

    made.refresh_from_db()
    assert sorted(made.secrets_env) == ["N0", "N1", "N2", "N3"]
