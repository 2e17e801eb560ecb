"""Does what an agent writes into its folder for life stay, and stay its own?"""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from buildqueue.backends.base import WorkloadSpec
from buildqueue.backends.localruntime.storage import checked_path
from buildqueue.exceptions import Rejected
from tests.integration.localruntime.hosts import Host, ask, confinement, identity
from tests.support.waiting import wait_until


def _deploy(host: Host, spec: WorkloadSpec) -> str:
    address = host.lead_to(spec).address
    assert address
    wait_until(lambda: ask(address).status == 200)
    return address


def test_the_folder_is_kept_over_versions_restarts_and_stops(host: Host) -> None:
    first = replace(host.spec(host.agent), writable=True)
    address = _deploy(host, first)
    assert ask(address, "/keep").json == ["1"]

    _deploy(host, replace(host.spec(host.agent, "second", "2"), writable=True))
    assert ask(address, "/keep").json == ["1", "2"]
    before = host.pid(host.agent, "second")
    identity(before).signal(signal.SIGKILL)
    wait_until(lambda: host.instance(host.agent, "second").pid not in (None, before))
    wait_until(lambda: ask(address).status == 200)
    assert ask(address, "/keep").json == ["1", "2", "2"]
    host.runtime.stop(host.agent)
    _deploy(host, replace(host.spec(host.agent, "third", "3"), writable=True))

    assert ask(address, "/keep").json == ["1", "2", "2", "3"]


def test_only_deletion_removes_the_folder(host: Host) -> None:
    _deploy(host, replace(host.spec(host.agent), writable=True))
    folder = host.root / "volumes" / host.agent
    _deploy(host, host.spec(host.agent, "second", "2"))
    host.runtime.stop(host.agent)
    assert folder.is_dir()

    host.runtime.delete(host.agent)

    assert not folder.exists()


def test_without_the_wish_there_is_no_folder(host: Host) -> None:
    address = _deploy(host, host.spec(host.agent))

    assert "WRITABLE_PATH" not in ask(address, "/env").json  # type: ignore[operator]
    assert not (host.root / "volumes").exists()


def test_all_replicas_share_it(host: Host) -> None:
    spec = replace(host.spec(host.agent), writable=True, replicas=2)
    address = _deploy(host, spec)

    for _ in range(4):
        ask(address, "/keep")

    assert len(ask(address, "/keep").json) == 5  # type: ignore[arg-type]


def test_it_is_seen_where_it_was_asked_for_in_a_namespace_alone(host: Host) -> None:
    spec = replace(host.spec(host.agent), writable=True, writable_path="/var/keep")
    address = _deploy(host, spec)

    env = ask(address, "/env").json

    assert isinstance(env, dict)
    own = str(host.root / "volumes" / host.agent)
    seen = "/var/keep" if confinement().mode == "namespace" else own
    assert env["WRITABLE_PATH"] == seen
    assert ask(address, "/keep").json == ["1"]
    assert Path(own, "kept").is_file()


@pytest.mark.parametrize(
    "wrong",
    ["", "/", "data", "/data/../etc", "/etc/app", "/usr", "/a:b", "/a\nb", "/" * 300],
)
def test_a_path_that_cannot_be_is_refused(host: Host, wrong: str) -> None:
    with pytest.raises(Rejected) as refused:
        host.run(replace(host.spec(host.agent), writable=True, writable_path=wrong))

    assert refused.value.code == "invalid_writable_path"


@pytest.mark.parametrize("right", ["/data", "/app/data", "/var/lib/agent"])
def test_a_path_of_its_own_is_taken(right: str) -> None:
    assert checked_path(right) == right


def test_a_folder_that_a_dying_daemon_left_half_made_is_made_anew(host: Host) -> None:
    left = host.root / "volumes" / f".new-{host.agent}"
    left.mkdir(parents=True)
    (left / "half").touch()

    address = _deploy(host, replace(host.spec(host.agent), writable=True))

    assert ask(address, "/keep").json == ["1"]
    assert [path.name for path in left.parent.iterdir()] == [host.agent]


def test_what_is_in_the_folder_is_left_as_the_agent_made_it(host: Host) -> None:
    _deploy(host, replace(host.spec(host.agent), writable=True))
    ask(host.address(host.agent), "/keep")
    kept = host.root / "volumes" / host.agent / "kept"
    before = kept.stat()

    _deploy(host, replace(host.spec(host.agent, "second", "2"), writable=True))

    after = kept.stat()
    assert (after.st_mode, after.st_uid) == (before.st_mode, before.st_uid)
