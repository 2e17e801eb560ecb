"""What can a hostile agent do to its host? It tries, and reports over HTTP.

Run by root it is confined as another user, run by anybody else in a namespace; what
must not work is the same. Every target is there: what is refused is not what is absent.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from buildqueue.backends.base import Resources
from buildqueue.backends.localruntime.identity import entry_of
from tests.integration.localruntime.conftest import new_host
from tests.integration.localruntime.hosts import Host, ask, identity, known, prober
from tests.support.waiting import wait_until

ATTACKER = Path(__file__).parent / "programs" / "attacker.py"
SECRET = "victims-secret-42"


@dataclass(slots=True, kw_only=True)
class Scene:
    """A host with an attacker, its victim, and a worker with a secret."""

    host: Host
    worker: subprocess.Popen[bytes]
    database: Path  # a folder as the embedded database has for its socket
    setuid: Path

    @property
    def attacker(self) -> str:
        return self.host.agent

    @property
    def victim(self) -> str:
        return self.host.other

    @property
    def address(self) -> str:
        return self.host.address(self.attacker)

    def pid(self, workload_id: str) -> int:
        return self.host.pid(workload_id, "first")

    def port(self, workload_id: str) -> int:
        return known(self.host.instance(workload_id, "first").port)

    def keeper(self, workload_id: str) -> int:
        """Return the pid of whoever looks after the workload."""
        entry = entry_of(self.pid(workload_id))
        assert entry is not None
        return entry.parent

    def bundled(self, workload_id: str) -> Path:
        return next((self.host.root / "bundles" / workload_id).glob("*/app/agent.py"))

    def tries(self, *attempts: tuple[str, object]) -> None:
        """Have the attacker try; each attempt has to be refused."""
        wait_until(lambda: ask(self.address).status == 200)
        told = [(name, _plain(target)) for name, target in attempts]
        reply = ask(self.address, "/try", "POST", json.dumps(told).encode())
        assert reply.status == 200
        answers = json.loads(reply.body)
        assert len(answers) == len(attempts)
        succeeded = [
            (attempt, answer["how"])
            for attempt, answer in zip(attempts, answers, strict=True)
            if not answer["refused"]
        ]
        assert not succeeded

    def processes(self) -> list[int]:
        """Return whom an attacker would like to read or end."""
        daemon, victim = self.host.daemons[-1].pid, self.pid(self.victim)
        return [self.worker.pid, daemon, self.keeper(self.victim), victim]


def _plain(target: object) -> object:
    return str(target) if isinstance(target, Path) else target


@pytest.fixture(scope="module")
def scene(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """An attacker beside a victim, both promoted."""
    with new_host(worker_id) as host, _worker() as worker:
        host.serve()
        attacker = host.spec(host.agent, program=ATTACKER)
        bounds = Resources(memory_mb=128, processes=64)
        host.lead_to(replace(attacker, resources=bounds))
        victim = host.spec(host.other, env={"SECRET": SECRET})
        host.lead_to(replace(victim, writable=True))
        wait_until(lambda: ask(host.address(host.other), "/keep").status == 200)
        ask(host.address(host.other), "/write")
        database = host.root / "database"
        database.mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(database / ".s.PGSQL.5432"))
            listening.listen()
            setuid = _setuid(host.root / "whoami")
            yield Scene(host=host, worker=worker, database=database, setuid=setuid)


@contextmanager
def _worker() -> Iterator[subprocess.Popen[bytes]]:
    """Run a stand-in for the worker: a process of its user with secrets."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={"DATABASE_URL": "postgresql://secret", "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as worker:
        yield worker
        worker.communicate(b"\n")


def _setuid(copy: Path) -> Path:
    """Return a program that says as whom it runs, and may run as its owner."""
    copy.write_bytes(Path(shutil.which("id") or "/usr/bin/id").read_bytes())
    script = copy.with_name("whoami-u")
    copy.chmod(0o4755)
    script.write_text(f"#!/bin/sh\nexec {copy} -u\n")
    script.chmod(0o755)
    return script


def test_no_environment_memory_or_folder_of_another_process_is_read(
    scene: Scene,
) -> None:
    attempts = ("environ", "memory", "descriptors", "folder")

    scene.tries(*((name, pid) for pid in scene.processes() for name in attempts))


def test_no_other_process_is_traced(scene: Scene) -> None:
    scene.tries(*(("trace", pid) for pid in scene.processes()))


def test_nobody_is_ended(scene: Scene) -> None:
    own = scene.keeper(scene.attacker)
    every = [identity(pid) for pid in (*scene.processes(), own)]

    scene.tries(
        *(("kill", one.pid) for one in every),
        *(("kill_all", one.pid) for one in every),
    )

    assert all(one.alive() for one in every)


def test_the_runtimes_own_folder_is_closed(scene: Scene) -> None:
    runtime = scene.host.root / "runtime"
    control, state = runtime / "control.sock", runtime / "state.json"
    assert stat.S_ISSOCK(control.stat().st_mode)
    assert state.is_file()

    scene.tries(
        ("names", runtime),
        ("mode", runtime),
        ("connect", control),
        ("read", state),
        ("write", state),
        ("remove", state),
        ("read", runtime / "daemon.log"),
        ("read", runtime / "instances" / scene.victim / "first/0/output.log"),
        ("read", runtime / "instances" / scene.attacker / "first/0/exit.json"),
    )


def test_the_folders_of_another_agent_are_closed(scene: Scene) -> None:
    root = scene.host.root
    bundle = scene.bundled(scene.victim)
    scratch = root / "scratch" / scene.victim / "first" / "0"
    volume = root / "volumes" / scene.victim
    assert (scratch / "kept").is_file()
    assert (volume / "kept").is_file()

    scene.tries(
        *(("names", folder) for folder in (bundle.parent, scratch, volume)),
        *(("make", folder) for folder in (bundle.parent, scratch, volume)),
        *(("mode", folder) for folder in (bundle.parent, scratch, volume)),
        *(("read", folder / "kept") for folder in (scratch, volume)),
        *(("write", file) for file in (bundle, scratch / "kept", volume / "kept")),
        *(("remove", file) for file in (bundle, scratch, volume)),
    )


def test_who_else_is_here_is_not_listed(scene: Scene) -> None:
    root = scene.host.root
    folders = [root / name for name in ("bundles", "scratch", "volumes")]
    assert all((folder / scene.victim).is_dir() for folder in folders)

    scene.tries(
        *(("find", folder / scene.victim) for folder in folders),
        ("find", root / "runtime"),
    )


def test_its_own_bundle_is_not_written(scene: Scene) -> None:
    bundle = scene.bundled(scene.attacker)
    before = bundle.read_bytes()

    scene.tries(
        ("write", bundle),
        ("remove", bundle),
        ("mode", bundle),
        ("make", bundle.parent),
        ("make", bundle.parent.parent),
        ("write", bundle.parent.parent / "bundle.json"),
    )

    assert bundle.read_bytes() == before


def test_the_databases_socket_is_out_of_reach(scene: Scene) -> None:
    scene.tries(
        ("names", scene.database),
        ("connect", scene.database / ".s.PGSQL.5432"),
        ("make", scene.database),
    )


def test_no_port_of_another_is_taken_over(scene: Scene) -> None:
    port, address = scene.port(scene.victim), scene.host.address(scene.victim)

    scene.tries(("listen", port), ("listen", int(address.rpartition(":")[2])))

    assert ask(address).status == 200


def test_nobody_else_is_become(scene: Scene) -> None:
    victim = os.stat(scene.host.root / "volumes" / scene.victim).st_uid

    own = [] if victim == os.geteuid() else [("switch", victim)]
    scene.tries(
        ("become_root", scene.setuid),
        ("switch", 0),
        ("debug", 0),
        ("write", "/etc/passwd"),
        *own,
    )


def test_a_fork_bomb_ends_at_its_bound_and_hurts_nobody(scene: Scene) -> None:
    with prober(scene.host.address(scene.victim)) as answers:
        reply = ask(scene.address, "/bomb")

    assert reply.json["refused"], reply.json  # type: ignore[index]
    assert reply.json["made"] < 1100  # type: ignore[index]
    assert {status for status, _ in answers} == {200}


def test_memory_beyond_its_bound_hurts_nobody(scene: Scene) -> None:
    wait_until(lambda: ask(scene.address).status == 200)
    with prober(scene.host.address(scene.victim)) as answers:
        try:
            eaten = ask(scene.address, "/eat").status == 200
        except (OSError, http.client.HTTPException):
            eaten = False

    assert not eaten
    assert {status for status, _ in answers} == {200}
    wait_until(lambda: ask(scene.address).status == 200, message="it to be restarted")
