"""Do secrets rest encrypted, and survive a rotation that anything may interrupt?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core import serializers
from django.db.models import JSONField, Value
from django.test import override_settings

from buildqueue.builds import environment, secrets, settings_of
from buildqueue.builds.secrets import keys, rotation
from buildqueue.exceptions import Refused, Rejected
from buildqueue.models import (
    Agent,
    AgentBuild,
    McpConnector,
    McpConnectorBuild,
    OwnerSecret,
)
from buildqueue.queue.outcomes import Actor
from tests.factories import make_agent, make_build, make_connector, make_job
from tests.support.races import race

OLD, NEW = "o" * 40, "n" * 40
ANNA = Actor(label="anna", id="1")
JSON_NULL = Value(None, JSONField())

pytestmark = pytest.mark.usefixtures("committed")


class Killed(BaseException):
    """Stands for the death of the process: nothing may catch it and go on."""


def having(*given: str) -> override_settings:
    """Return settings with these keys."""
    return override_settings(BUILDQUEUE={"SECRET_KEYS": list(given)})


@pytest.fixture(autouse=True)
def _keys() -> Iterator[None]:
    with having(OLD):
        yield


def test_a_secret_is_read_again_and_rests_as_ciphertext() -> None:
    secrets.set_secret("1", "GIT_TOKEN", "in the clear")

    [row] = OwnerSecret.objects.all()
    assert secrets.read_secret("1", "GIT_TOKEN") == "in the clear"
    assert "clear" not in serializers.serialize("json", [row])


def test_a_secret_set_again_replaces_the_first() -> None:
    secrets.set_secret("1", "TOKEN", "first")
    [before] = secrets.names("1")
    secrets.set_secret("1", "TOKEN", "second")

    [after] = secrets.names("1")
    assert secrets.read_secret("1", "TOKEN") == "second"
    assert after.created_at == before.created_at


def test_an_owner_sees_and_reads_no_secret_of_another() -> None:
    secrets.set_secret("1", "B", "x")
    secrets.set_secret("1", "A", "x")
    secrets.set_secret("2", "C", "x")

    assert [each.name for each in secrets.names("1")] == ["A", "B"]
    with pytest.raises(Rejected) as refused:
        secrets.read_secret("2", "A")
    assert refused.value.code == "secret_missing"
    assert not secrets.remove_secret("2", "A")
    assert secrets.remove_secret("1", "A")
    assert [each.name for each in secrets.names("1")] == ["B"]


def test_a_secret_moved_to_another_owners_row_cannot_be_read() -> None:
    secrets.set_secret("1", "TOKEN", "stolen")
    OwnerSecret.objects.update(owner_id="2")

    with pytest.raises(Rejected, match="TOKEN") as refused:
        secrets.read_secret("2", "TOKEN")
    assert refused.value.code == "secret_unreadable"


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("", "x", "name"),
        ("a b", "x", "name"),
        ("N" * 129, "x", "name"),
        ("N", "", "value"),
        ("N", "x" * 40_000, "value"),
        ("N", "x\0", "value"),
    ],
)
def test_a_secret_that_could_not_be_used_is_refused(
    name: str, value: str, field: str
) -> None:
    with pytest.raises(Refused) as refused:
        secrets.set_secret("1", name, value)

    assert refused.value.code == "invalid_secret"
    assert set(refused.value.fields) == {field}
    assert not OwnerSecret.objects.exists()


def _waiting(owner: str = "1") -> tuple[Agent, AgentBuild]:
    """Make an agent whose build waits with an environment and a token of its own."""
    agent = make_agent(owner, secrets_env=secrets.encrypt_env(owner, {"A": "agent's"}))
    job = make_job(agent=agent, owner_id=owner)
    build = make_build(
        agent,
        job=job,
        secrets_env=secrets.encrypt_env(owner, {"B": "build's"}),
        source_token=secrets.encrypt(owner, "token"),
    )
    return agent, build


def _shared(owner: str | None) -> tuple[McpConnector, McpConnectorBuild]:
    """Make a connector, of nobody perhaps, with everything encrypted that it may have."""
    whose = owner or ""
    connector = make_connector(
        owner,
        build_secrets_env=secrets.encrypt_env(whose, {"A": "connector's"}),
        oauth_client_secret=secrets.encrypt(whose, "client"),
    )
    build = McpConnectorBuild.objects.create(
        connector=connector,
        owner_id="caller",
        version_tag="1.0.0",
        secrets_env=secrets.encrypt_env(whose, {"B": "build's"}),
        source_token=secrets.encrypt(whose, "token"),
    )
    return connector, build


def _check_all_is_read() -> None:
    """Read every ciphertext there is with the keys of the moment."""
    for agent in Agent.objects.all():
        [build] = AgentBuild.objects.filter(agent=agent)
        found = environment.environment_of(agent, build.secrets_env)
        assert found == {"A": "agent's", "B": "build's"}
        assert secrets.decrypt(agent.owner_id, build.source_token or "") == "token"
    for connector in McpConnector.objects.all():
        owner = connector.owner_id or ""
        [built] = McpConnectorBuild.objects.filter(connector=connector)
        found = environment.environment_of(connector, built.secrets_env)
        assert found == {"A": "connector's", "B": "build's"}
        assert secrets.decrypt(owner, built.source_token or "") == "token"
        assert secrets.decrypt(owner, connector.oauth_client_secret or "") == "client"
    for row in OwnerSecret.objects.all():
        assert secrets.read_secret(row.owner_id, row.name) == "left with us"


@pytest.fixture
def everything(committed: None) -> int:
    """Fill every column that holds ciphertext; return how many cells that are."""
    for owner in ("1", "1", "2"):
        _waiting(owner)
    for whose in ("1", None):
        _shared(whose)
    for name in ("X", "Y"):
        secrets.set_secret("1", name, "left with us")
    make_agent("3", secrets_env={})  # nothing to do
    Agent.objects.filter(owner_id="3").delete()
    return 3 * 3 + 2 * 4 + 2


def test_after_a_rotation_while_jobs_wait_the_old_key_may_go(everything: int) -> None:
    with having(NEW, OLD):
        report = secrets.rotate(batch=2)
        _check_all_is_read()
    with having(NEW):
        _check_all_is_read()

    assert (report.rotated, report.current) == (everything, 0)
    assert (report.unreadable, report.busy) == ([], [])


def test_a_second_rotation_changes_nothing(everything: int) -> None:
    with having(NEW, OLD):
        secrets.rotate()
        before = serializers.serialize("json", Agent.objects.order_by("pk"))
        report = secrets.rotate()

    assert (report.rotated, report.current) == (0, everything)
    assert serializers.serialize("json", Agent.objects.order_by("pk")) == before


@pytest.mark.parametrize("killed_at", [1, 4, 10, 18])
def test_a_rotation_killed_half_way_leaves_all_readable_and_the_next_ends_it(
    everything: int, killed_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, renewed = [], keys.renewed

    def renew(owner_id: str, token: str) -> str | None:
        calls.append(owner_id)
        if len(calls) > killed_at:
            raise Killed
        return renewed(owner_id, token)

    with having(NEW, OLD):
        with monkeypatch.context() as patched:
            patched.setattr(keys, "renewed", renew)
            with pytest.raises(Killed):
                secrets.rotate(batch=3)
        _check_all_is_read()
        report = secrets.rotate(batch=3)
    with having(NEW):
        _check_all_is_read()

    assert (report.rotated, report.current) == (everything - killed_at, killed_at)


def test_a_row_that_changes_while_it_is_rotated_keeps_what_is_newer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets.set_secret("1", "TOKEN", "older")
    renewed, meanwhile = keys.renewed, iter([True])

    def renew(owner_id: str, token: str) -> str | None:
        if next(meanwhile, False):
            with having(OLD):
                secrets.set_secret("1", "TOKEN", "newer")
        return renewed(owner_id, token)

    monkeypatch.setattr(keys, "renewed", renew)
    with having(NEW, OLD):
        report = secrets.rotate()
    with having(NEW):
        assert secrets.read_secret("1", "TOKEN") == "newer"

    assert report.rotated == 1


def test_a_row_that_goes_away_or_never_rests_does_not_hold_the_rotation_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets.set_secret("1", "GONE", "x")
    secrets.set_secret("1", "RESTLESS", "x")
    renewed = keys.renewed

    def renew(owner_id: str, token: str) -> str | None:
        with having(OLD):
            OwnerSecret.objects.filter(name="GONE").delete()
            secrets.set_secret("1", "RESTLESS", "y")
        return renewed(owner_id, token)

    monkeypatch.setattr(keys, "renewed", renew)
    with having(NEW, OLD):
        report = secrets.rotate()

    assert report.rotated == 0
    assert [each.column for each in report.busy] == ["ownersecret.encrypted_value"]


def test_what_no_key_reads_is_told_by_row_and_stays() -> None:
    agent, _ = _waiting()
    with having("lost" * 10):
        lost = secrets.encrypt("1", "gone for ever")
    Agent.objects.update(secrets_env={**agent.secrets_env, "LOST": lost})
    secrets.set_secret("1", "BROKEN", "x")
    OwnerSecret.objects.update(encrypted_value="no ciphertext")

    with having(NEW, OLD):
        report = secrets.rotate()
        again = secrets.rotate()

    told = {(left.column, left.id, left.name) for left in report.unreadable}
    assert told == {
        ("agent.secrets_env", str(agent.pk), "LOST"),
        (
            "ownersecret.encrypted_value",
            str(OwnerSecret.objects.get().pk),
            None,
        ),
    }
    assert "gone for ever" not in repr(report)
    assert lost not in repr(report)
    agent.refresh_from_db()
    assert agent.secrets_env["LOST"] == lost
    with having(NEW):
        kept = {k: v for k, v in agent.secrets_env.items() if k != "LOST"}
        assert secrets.decrypt_env("1", kept) == {"A": "agent's"}
    assert (report.rotated, again.rotated) == (3, 0)
    assert again.unreadable == report.unreadable


@pytest.mark.parametrize("odd", [[], ["x"], "text", 5, JSON_NULL, {"A": None}])
def test_a_cell_that_holds_no_environment_is_told(odd: Any) -> None:
    agent = make_agent()
    Agent.objects.filter(pk=agent.pk).update(secrets_env=odd)

    with having(NEW, OLD):
        report = secrets.rotate()

    assert report.rotated == 0
    assert {left.id for left in report.unreadable} == {str(agent.pk)}


def test_every_column_that_the_models_call_ciphertext_is_rotated() -> None:
    known = {(column.model, column.name) for column in rotation.COLUMNS}
    models = {Agent, AgentBuild, McpConnector, McpConnectorBuild, OwnerSecret}
    called = {
        (model, field.name)
        for model in models
        for field in model._meta.fields
        if "iphertext" in str(field.help_text)
    }

    assert called == known


def test_three_rotations_and_writers_at_once_leave_all_under_the_new_key() -> None:
    agents = [_waiting()[0] for _ in range(5)]

    def act(number: int) -> None:
        if number < 3:
            secrets.rotate(batch=2)
        else:
            for agent in agents:
                settings_of.set_env(agent, {f"N{number}": "new"}, actor=ANNA)

    with having(NEW, OLD):
        race(5, act)
        secrets.rotate()
    with having(NEW):
        for agent in Agent.objects.all():
            assert secrets.decrypt_env("1", agent.secrets_env) == {
                "A": "agent's",
                "N3": "new",
                "N4": "new",
            }
