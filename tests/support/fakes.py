"""What stands in for builder and runtime in tests? Fakes that keep the same contract.

They pass the suites in `tests/contracts` like the local backend. What an artifact does
is said by a word in its `main.py`: `UNHEALTHY` answers 500, `EXITS` is gone at once,
`BUILD_FAILS` is rejected, `BUILD_UNAVAILABLE` cannot be built now. Instances are real
HTTP servers, threads of the test's own process.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from buildqueue.backends.base import (
    BuildRequest,
    BuiltArtifact,
    InstanceStatus,
    LineCallback,
    ReplicaStatus,
    WorkloadSpec,
    WorkloadStatus,
)
from buildqueue.exceptions import Rejected, Unavailable

Answer = tuple[int, dict[str, object]]


def _nothing(point: str) -> None:
    """Interfere with nothing."""


class FakeBuilder:
    """Builds artifacts in memory."""

    name = "fake"

    def __init__(self) -> None:
        self.programs: dict[str, str] = {}
        self.requests: list[BuildRequest] = []
        self.at: Callable[[str], None] = _nothing  # a test's interference

    def validate_source(self, source_dir: Path) -> None:
        """Refuse a tree without a main.py."""
        if not (source_dir / "main.py").is_file():
            raise Rejected("no_dockerfile", "add a main.py")

    def build(self, request: BuildRequest, on_line: LineCallback) -> BuiltArtifact:
        """Build; the same request again gives the same artifact."""
        self.at("build")
        self.validate_source(request.source_dir)
        self.requests.append(request)
        program = (request.source_dir / "main.py").read_text()
        on_line(f"building {request.target_id}")
        if "BUILD_FAILS" in program:
            raise Rejected("build_failed", "the build does what it was told: it fails")
        if "BUILD_UNAVAILABLE" in program:
            raise Unavailable("index_unreachable", "no package can be fetched now")
        digest = f"sha256:{_digest(request.source_dir)}"
        reference = f"fake:{request.target_id}/{request.version}@{digest}"
        self.programs[reference] = program
        return BuiltArtifact(
            reference=reference, digest=digest, ports=(8000,), size_bytes=len(program)
        )

    def remove(self, reference: str) -> None:
        """Delete the artifact; absent is fine."""
        self.programs.pop(reference, None)

    def exists(self, reference: str) -> bool:
        """Tell whether the artifact can be deployed."""
        return reference in self.programs

    def targets(self) -> list[str]:
        """Return the ids of the targets of which something is here."""
        return sorted({_target(reference) for reference in self.programs})

    def clean(
        self, target_id: str, *, keep: Collection[str], older_than_seconds: float
    ) -> int:
        """Delete what is here of the target and not to be kept; nothing has an age."""
        mine = {one for one in self.programs if _target(one) == target_id}
        for reference in mine - set(keep):
            self.remove(reference)
        return len(mine - set(keep))


@dataclass(slots=True)
class _Instance:
    spec: WorkloadSpec
    servers: list[_Server]
    promoted: bool = False
    state: str = "running"
    restarts: int = 0


@dataclass(slots=True)
class _Workload:
    address: _Server
    instances: dict[str, _Instance] = field(default_factory=dict)
    active: str | None = None
    turns: int = 0


class FakeRuntime:
    """Runs artifacts of a FakeBuilder as threads of this process."""

    name = "fake"

    def __init__(self, builder: FakeBuilder) -> None:
        self._builder = builder
        self._workloads: dict[str, _Workload] = {}
        self._deleted: set[str] = set()
        self.calls: list[str] = []
        self.specs: list[WorkloadSpec] = []  # of everything that was started
        self.at: Callable[[str], None] = _nothing  # a test's interference

    def start(self, spec: WorkloadSpec) -> InstanceStatus:
        """Start an instance beside what runs; ends those that were never promoted."""
        self._called("start")
        self.specs.append(spec)
        if spec.workload_id in self._deleted:
            raise Rejected("workload_deleted", "the workload was deleted")
        if not self._builder.exists(spec.reference):
            raise Rejected("artifact_missing", "build it again")
        workload = self._workloads.get(spec.workload_id) or self._open(spec.workload_id)
        known = workload.instances.get(spec.instance_id)
        if known is None or known.state != "running":
            for name, other in list(workload.instances.items()):
                if not other.promoted:
                    self._end(workload, name)
                    del workload.instances[name]
            known = workload.instances[spec.instance_id] = self._launch(spec)
        return _status(spec.instance_id, known)

    def promote(self, workload_id: str, instance_id: str) -> WorkloadStatus:
        """Lead the address to the instance and end the others."""
        self._called("promote")
        workload = self._workloads.get(workload_id)
        if workload is None:
            raise Rejected("workload_unknown", "start it first")
        found = workload.instances.get(instance_id)
        if found is None:
            raise Rejected("instance_unknown", "start it first")
        if found.state != "running":
            raise Rejected("instance_not_running", "it has ended")
        found.promoted, workload.active = True, instance_id
        for name in [name for name in workload.instances if name != instance_id]:
            self._end(workload, name)
            del workload.instances[name]
        self.at("promoted")
        return self._seen(workload_id)

    def scale(self, workload_id: str, replicas: int) -> WorkloadStatus:
        """Run so many replicas of the active instance."""
        self._called("scale")
        if replicas < 1:
            raise Rejected("invalid_replicas", "at least one")
        workload = self._workloads.get(workload_id)
        if workload is None:
            raise Rejected("workload_unknown", "start it first")
        active = workload.instances.get(workload.active or "")
        if active is None:
            raise Rejected("workload_stopped", "start it first")
        active.spec = replace(active.spec, replicas=replicas)
        while len(active.servers) > replicas:
            active.servers.pop().close()
        while len(active.servers) < replicas:
            active.servers.append(self._serve(active.spec))
        return self._seen(workload_id)

    def stop_instance(self, workload_id: str, instance_id: str) -> None:
        """End one instance; absent is fine."""
        self._called("stop_instance")
        workload = self._workloads.get(workload_id)
        if workload and instance_id in workload.instances:
            self._end(workload, instance_id)

    def stop(self, workload_id: str) -> None:
        """End all instances; the address is kept."""
        self._called("stop")
        if workload := self._workloads.get(workload_id):
            for name in workload.instances:
                self._end(workload, name)

    def delete(self, workload_id: str) -> None:
        """End all, free the address, refuse the workload for ever."""
        self._called("delete")
        self.stop(workload_id)
        self._deleted.add(workload_id)
        if workload := self._workloads.pop(workload_id, None):
            workload.address.close()

    def status(self, workload_id: str) -> WorkloadStatus | None:
        """Tell what is there; None when the workload is unknown."""
        return self._seen(workload_id) if workload_id in self._workloads else None

    def workloads(self) -> list[WorkloadStatus]:
        """Tell all that is there."""
        return [self._seen(workload_id) for workload_id in self._workloads]

    def logs(self, workload_id: str, instance_id: str, tail: int) -> list[str]:
        """Return the last lines of the instance's output."""
        workload = self._workloads.get(workload_id)
        found = workload.instances.get(instance_id) if workload else None
        program = self._builder.programs.get(found.spec.reference, "") if found else ""
        lines = [line[2:] for line in program.splitlines() if line.startswith("# ")]
        return lines[-tail:]

    def crash(self, workload_id: str, *, restarts: int, running: bool) -> None:
        """Behave as if the active instance had been restarted so often."""
        workload = self._workloads[workload_id]
        active = workload.instances[workload.active or ""]
        active.restarts, active.state = restarts, "running" if running else "starting"

    def lock_out(self, workload_id: str) -> None:
        """Behave as if the active instance had ended, and its environment were lost."""
        workload = self._workloads[workload_id]
        active = workload.instances[workload.active or ""]
        while active.servers:
            active.servers.pop().close()
        active.state = "environment_unreadable"

    def close(self) -> None:
        """End everything."""
        for workload_id in list(self._workloads):
            self.delete(workload_id)

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        self.at(verb)

    def _open(self, workload_id: str) -> _Workload:
        def answer(path: str) -> Answer:
            workload = self._workloads[workload_id]
            active = workload.instances.get(workload.active or "")
            if active is None or not active.servers:
                return 503, {"error": "nothing runs here"}
            workload.turns += 1
            return active.servers[workload.turns % len(active.servers)].answer(path)

        made = self._workloads[workload_id] = _Workload(address=_Server(answer))
        return made

    def _launch(self, spec: WorkloadSpec) -> _Instance:
        if "EXITS" in self._builder.programs[spec.reference]:
            return _Instance(spec=spec, servers=[], state="exited")
        servers = [self._serve(spec) for _ in range(spec.replicas)]
        return _Instance(spec=spec, servers=servers)

    def _serve(self, spec: WorkloadSpec) -> _Server:
        program = self._builder.programs[spec.reference]
        version = spec.reference.rpartition("@")[0].rpartition("/")[2]
        card: dict[str, object] = {
            "name": "fake",
            "version": version,
            "instance": spec.instance_id,
            "skills": [{"id": "echo"}],
            "capabilities": {"streaming": True},
        }

        def answer(path: str) -> Answer:
            return (500, {}) if "UNHEALTHY" in program else (200, card)

        made = _Server(answer)
        card["replica"] = made.port
        return made

    def _end(self, workload: _Workload, instance_id: str) -> None:
        ended = workload.instances[instance_id]
        if ended.state != "exited":
            ended.state = "stopped"
        while ended.servers:
            ended.servers.pop().close()
        if workload.active == instance_id:
            workload.active = None

    def _seen(self, workload_id: str) -> WorkloadStatus:
        workload = self._workloads[workload_id]
        active = workload.instances.get(workload.active or "")
        return WorkloadStatus(
            workload_id=workload_id,
            address=f"http://127.0.0.1:{workload.address.port}",
            active=workload.active,
            replicas=active.spec.replicas if active else 0,
            instances=tuple(_status(n, i) for n, i in workload.instances.items()),
        )


class _Server:
    """A real HTTP server on a loopback port."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.answer = answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = answer(self.path)
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _status(instance_id: str, found: _Instance) -> InstanceStatus:
    alive = found.state == "running"
    replicas = tuple(
        ReplicaStatus(
            number=number,
            state=found.state,
            pid=os.getpid() if alive else None,
            port=server.port,
            exit_code=None,
        )
        for number, server in enumerate(found.servers)
    )
    return InstanceStatus(
        instance_id=instance_id,
        state=found.state,
        pid=os.getpid() if alive and replicas else None,
        port=replicas[0].port if replicas else None,
        exit_code=3 if found.state == "exited" else None,
        restarts=found.restarts,
        confined="none",
        replicas_running=len(replicas) if alive else 0,
        replicas=replicas,
    )


def _target(reference: str) -> str:
    return reference.removeprefix("fake:").partition("/")[0]


def _digest(root: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        total.update(f"{path.relative_to(root)}\n".encode())
        total.update(path.read_bytes() if path.is_file() else b"")
    return total.hexdigest()
