"""Does an environment stay sealed on disk, out of every process, and out of the log?"""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from buildqueue.backends.localruntime.identity import descendants, entry_of, processes
from buildqueue.backends.localruntime.sealing import Sealer
from buildqueue.backends.localruntime.service import KEY_VARIABLE
from buildqueue.exceptions import Rejected
from tests.integration.localruntime.hosts import KEY, Host, ask, identity
from tests.support.waiting import wait_until

SECRET = "open-sesame-42"


def test_no_file_of_the_runtime_holds_a_value(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET, MODE="tell")
    wait_until(lambda: "and that is all" in host.runtime.logs(host.agent, "first", 9))

    every = [path for path in (host.root / "runtime").rglob("*") if path.is_file()]

    assert len(every) > 3
    assert not [path for path in every if SECRET.encode() in path.read_bytes()]
    assert not [path for path in every if KEY.encode() in path.read_bytes()]


def test_a_printed_secret_does_not_get_into_the_log(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET, MODE="tell")

    lines = wait_until(
        lambda: (
            [
                line
                for line in host.runtime.logs(host.agent, "first", 9)
                if "and that is all" in line
            ]
            and host.runtime.logs(host.agent, "first", 9)
        )
    )

    assert "the secret is ***, cut" in lines
    assert "***\N{REPLACEMENT CHARACTER}" in lines


def test_what_the_bundle_itself_sets_is_no_secret(host: Host) -> None:
    host.deploy(host.agent, "first", "1-visible", SECRET=SECRET)

    assert "agent 1-visible starts" in host.runtime.logs(host.agent, "first", 9)


def test_the_key_is_in_no_command_and_in_no_environment_but_the_daemons(
    host: Host,
) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET)
    daemon, agent = host.daemons[-1], identity(host.pid(host.agent, "first"))
    entry = entry_of(agent.pid)
    assert entry is not None
    keepers = {entry.parent, *(one.pid for one in descendants(entry.parent))}
    assert keepers

    for pid in keepers:
        assert KEY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    for one in processes():
        try:
            command = Path(f"/proc/{one.pid}/cmdline").read_bytes()
        except OSError:
            continue
        assert KEY.encode() not in command
    assert KEY not in ask(host.address(host.agent), "/env").body.decode()
    assert daemon.alive()


def test_an_environment_survives_the_daemon_that_sealed_it(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET)
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not host.daemons[-1].alive())

    host.serve()

    wait_until(lambda: ask(host.address(host.agent)).status == 200)
    assert ask(host.address(host.agent), "/env").json["SECRET"] == SECRET  # type: ignore[index]


def test_a_daemon_with_another_key_leaves_what_runs_alone(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET)
    before = host.instance(host.agent, "first")
    host.kill_daemon()

    _serve_with_another_key(host)

    assert host.instance(host.agent, "first") == before
    wait_until(lambda: ask(host.address(host.agent)).status == 200)


def test_what_cannot_be_opened_is_told_and_never_started_without(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET)
    host.deploy(host.other, "plain")
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not host.daemons[-1].alive())

    _serve_with_another_key(host)

    # The one without an environment needs no key.
    wait_until(lambda: ask(host.address(host.other)).status == 200)
    found = host.instance(host.agent, "first")
    assert (found.state, found.pid) == ("environment_unreadable", None)
    assert ask(host.address(host.agent)).status == 503
    assert host.healthy(host.agent, "first").code == "environment_unreadable"
    with pytest.raises(Rejected) as refused:
        host.runtime.scale(host.agent, 2)
    assert refused.value.code == "environment_unreadable"
    assert host.instance(host.agent, "first").pid is None


def test_the_next_deploy_heals_it(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET)
    address = host.address(host.agent)
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not host.daemons[-1].alive())
    _serve_with_another_key(host)

    host.deploy(host.agent, "second", SECRET=SECRET)

    assert host.address(host.agent) == address
    wait_until(lambda: ask(address).status == 200)
    assert ask(address, "/env").json["SECRET"] == SECRET  # type: ignore[index]


def test_the_same_instance_again_is_sealed_anew_and_not_started_twice(
    host: Host,
) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET)
    before = host.pid(host.agent, "first")
    host.kill_daemon()
    _serve_with_another_key(host)

    host.start(host.agent, "first", SECRET=SECRET)
    assert host.pid(host.agent, "first") == before
    identity(before).signal(9)  # type: ignore[arg-type]

    wait_until(lambda: host.instance(host.agent, "first").pid not in (None, before))
    assert host.instance(host.agent, "first").state == "running"


def test_an_environment_is_opened_by_an_older_key_and_sealed_by_the_newest() -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    sealed = Sealer(old).seal({"A": "b"})

    both = Sealer(f"{new},{old}")

    assert both.open(sealed) == {"A": "b"}
    assert Sealer(new).open(both.seal({"A": "c"})) == {"A": "c"}
    assert not Sealer(new).can_open(sealed)


def test_a_daemon_with_a_new_key_seals_anew_what_it_finds(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET=SECRET)
    address, old = host.address(host.agent), host.key
    host.kill_daemon()
    newest = Fernet.generate_key().decode()
    host.key = f"{newest},{old}"
    host.serve()
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not host.daemons[-1].alive())

    host.key = newest  # the old one is dropped
    host.serve()

    wait_until(lambda: ask(address).status == 200)
    assert ask(address, "/env").json["SECRET"] == SECRET  # type: ignore[index]


def test_what_nobody_opens_is_left_as_it_is() -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    sealed = Sealer(old).seal({"A": "b"})

    assert Sealer(new).renewed(sealed) == sealed
    assert Sealer(old).renewed(sealed) == sealed
    assert Sealer(new).renewed("") == ""
    assert Sealer(new).open(Sealer(f"{new},{old}").renewed(sealed)) == {"A": "b"}


def test_the_keys_are_taken_out_of_the_environment() -> None:
    environ = {KEY_VARIABLE: KEY, "PATH": "/bin"}

    sealer = Sealer.take_from(environ)

    assert environ == {"PATH": "/bin"}
    assert sealer.is_lasting
    assert not Sealer.take_from(environ).is_lasting


def test_something_else_than_a_key_is_refused_without_being_told() -> None:
    with pytest.raises(Rejected) as refused:
        Sealer.take_from({KEY_VARIABLE: "correct horse"})

    assert refused.value.code == "runtime_key_invalid"
    assert "horse" not in str(refused.value)


def _serve_with_another_key(host: Host) -> None:
    host.key = Fernet.generate_key().decode()
    host.serve()
