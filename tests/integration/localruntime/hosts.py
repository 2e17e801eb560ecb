"""What does a test of the runtime need? A root, bundles in it, and a daemon to kill."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from buildqueue.backends.base import InstanceStatus, WorkloadSpec, WorkloadStatus
from buildqueue.backends.bundles import (
    Bundle,
    make_reference,
    open_folder,
    publish_bundle,
)
from buildqueue.backends.confinement import Confinement, detect
from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.backends.localruntime.health import HealthReport, wait_healthy
from buildqueue.backends.localruntime.identity import ProcessIdentity
from buildqueue.backends.localruntime.service import ensure_running
from buildqueue.exceptions import Unavailable
from tests.support.waiting import wait_until

# Of the tests alone; a worker derives its own.
KEY = "dGhlIGtleSBvZiB0aGUgdGVzdHMsIDMyIGJ5dGVzISE="
PROGRAM = Path(__file__).parent / "programs" / "agent.py"


@cache
def confinement() -> Confinement:
    return detect(accept_none=False)


@dataclass(slots=True)
class Host:
    """One host of the test's own: its root and its daemon."""

    root: Path
    ports: str
    key: str | None = KEY
    daemons: list[ProcessIdentity] = field(default_factory=list)
    watched: list[ProcessIdentity] = field(default_factory=list)

    @property
    def agent(self) -> str:
        """Return a workload id that no parallel test has: its user is derived from it."""
        return f"agent-{self.root.name[-8:]}"

    @property
    def other(self) -> str:
        """Return another one."""
        return f"other-{self.root.name[-8:]}"

    @property
    def runtime(self) -> LocalRuntime:
        return LocalRuntime(self.root)

    @property
    def state(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(
            (self.root / "runtime/state.json").read_text()
        )
        return found

    def serve(self, *options: str) -> LocalRuntime:
        given = ("--ports", self.ports, "--grace", "2", "--drain", "5", *options)
        runtime = ensure_running(self.root, timeout=120, options=given, key=self.key)
        self.daemons.append(identity(int(str(runtime.ping()["pid"]))))
        return runtime

    def kill_daemon(self) -> None:
        daemon = self.daemons[-1]
        daemon.signal(signal.SIGKILL)
        _wait_gone(daemon)

    def bundle(
        self, workload_id: str, version: str = "1", program: Path = PROGRAM
    ) -> str:
        """Publish the test program as the workload's bundle; return its reference."""
        digest = "sha256:" + hashlib.sha256(version.encode()).hexdigest()
        reference = make_reference(workload_id, version, digest)
        with open_folder(self.root, reference) as folder:
            (folder / "app").mkdir(parents=True, exist_ok=True)
            shutil.copy(program, folder / "app/agent.py")
            bundle = Bundle(
                reference=reference,
                digest=digest,
                argv=(str(confinement().python), "agent.py"),
                env={"VERSION": version},
                workdir=str(folder / "app"),
                ports=(),
                python=str(confinement().python),
                created=datetime.now(UTC).isoformat(),
                size_bytes=1,
                folder=str(folder),
            )
            publish_bundle(bundle)
            confinement().grant_read(folder, workload_id)
        return reference

    def start(
        self, workload_id: str, instance_id: str, version: str = "1", **env: str
    ) -> InstanceStatus:
        return self.run(self.spec(workload_id, instance_id, version, env=env))

    def spec(
        self,
        workload_id: str,
        instance_id: str = "first",
        version: str = "1",
        *,
        program: Path = PROGRAM,
        env: dict[str, str] | None = None,
    ) -> WorkloadSpec:
        """Return the spec of a bundle that is there."""
        reference = self.bundle(workload_id, version, program)
        return WorkloadSpec(
            workload_id=workload_id,
            instance_id=instance_id,
            reference=reference,
            env=env or {},
        )

    def run(self, spec: WorkloadSpec) -> InstanceStatus:
        """Start what the spec asks for."""
        started = self.runtime.start(spec)
        for replica in started.replicas:
            if replica.pid and (found := ProcessIdentity.of(replica.pid)):
                self.watched.append(found)
        return started

    def lead_to(self, spec: WorkloadSpec) -> WorkloadStatus:
        """Start what the spec asks for, wait for health, promote."""
        self.run(spec)
        report = self.healthy(spec.workload_id, spec.instance_id)
        assert report.healthy, report
        return self.runtime.promote(spec.workload_id, spec.instance_id)

    def healthy(
        self, workload_id: str, instance_id: str, tries: int = 200
    ) -> HealthReport:
        return wait_healthy(
            self.runtime,
            workload_id,
            instance_id,
            tries=tries,
            interval=0.2,
            on_line=lambda _: None,
            cancelled=lambda: False,
        )

    def deploy(
        self, workload_id: str, instance_id: str, version: str = "1", **env: str
    ) -> WorkloadStatus:
        """Start, wait for health, promote."""
        return self.lead_to(self.spec(workload_id, instance_id, version, env=env))

    def instance(self, workload_id: str, instance_id: str) -> InstanceStatus:
        status = self.runtime.status(workload_id)
        assert status is not None
        return next(one for one in status.instances if one.instance_id == instance_id)

    def pid(self, workload_id: str, instance_id: str) -> int:
        return known(self.instance(workload_id, instance_id).pid)

    def address(self, workload_id: str) -> str:
        status = self.runtime.status(workload_id)
        assert status is not None
        assert status.address is not None
        return status.address

    def close(self) -> None:
        """End the daemon and every instance, whatever state the test left them in."""
        with suppress(Unavailable):
            self.serve()
            for workload in self.runtime.workloads():
                self.runtime.delete(workload.workload_id)
            self.runtime.shut_down(keep_instances=False)
        for daemon in self.daemons:
            _wait_gone(daemon)
        for process in self.watched:
            process.signal(signal.SIGKILL)
        shutil.rmtree(self.root)


def _wait_gone(process: ProcessIdentity) -> None:
    wait_until(lambda: not process.alive(), message="the daemon to be gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> object:
        return json.loads(self.body)


def ask(
    address: str,
    path: str = "/",
    method: str = "GET",
    body: bytes | Iterator[bytes] | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """Send one request on a connection of its own."""
    connection = connect(address)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        return read(connection)
    finally:
        connection.close()


def connect(address: str) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    assert parts.hostname is not None
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)


def read(connection: http.client.HTTPConnection) -> Reply:
    response = connection.getresponse()
    return Reply(
        status=response.status, body=response.read(), headers=dict(response.headers)
    )


@contextmanager
def prober(address: str) -> Iterator[list[tuple[int, str]]]:
    """Ask without a pause while the block runs; yields (status, version) as they come."""
    answers: list[tuple[int, str]] = []
    ended = threading.Event()

    def probe() -> None:
        while not ended.is_set():
            try:
                reply = ask(address)
                answers.append((reply.status, str(json.loads(reply.body)["version"])))
            except (OSError, http.client.HTTPException, KeyError) as error:
                answers.append((0, repr(error)))

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        wait_until(lambda: answers, message="the first answer")
        yield answers
        seen = len(answers)
        wait_until(lambda: len(answers) > seen + 5, message="answers after the block")
    finally:
        ended.set()
        thread.join()


def identity(pid: int | None) -> ProcessIdentity:
    found = ProcessIdentity.of(known(pid))
    assert found is not None
    return found


def known(number: int | None) -> int:
    """Return a pid or port that has to be there; 0 in its place would mean others."""
    assert number
    return number


def own_ports(worker: str) -> str:
    """Return a range of ports that no parallel test process uses."""
    digits = "".join(letter for letter in worker if letter.isdigit())
    first = 20_000 + 500 * (int(digits or "0") % 10) + (os.getuid() != 0) * 5000
    return f"{first}-{first + 499}"
