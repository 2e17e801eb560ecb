"""Which backends keep the contract? The fakes of the suite and the real local one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from buildqueue.backends.base import Builder, BuildRequest, Runtime, WorkloadSpec
from tests.support.fakes import FakeBuilder, FakeRuntime
from tests.support.localhost import local_backend

SAMPLE = """
import http.server, json, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        card = {"name": "sample", "version": VERSION, "replica": os.environ["PORT"]}
        body = json.dumps(card).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
print("sample starts", flush=True)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answer).serve_forever()
# sample starts
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A builder and a runtime that go together."""

    builder: Builder
    runtime: Runtime


@pytest.fixture(scope="module", params=["fake", "local"])
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """Return each backend in turn."""
    if request.param == "fake":
        builder = FakeBuilder()
        runtime = FakeRuntime(builder)
        yield Backend(builder=builder, runtime=runtime)
        runtime.close()
        return
    folder = tmp_path_factory.mktemp("contract")
    with local_backend(folder / "local") as (real_builder, real_runtime):
        yield Backend(builder=real_builder, runtime=real_runtime)


@pytest.fixture
def build_request(tmp_path: Path) -> BuildRequest:
    """Return the request for a small agent that tells its version."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "main.py").write_text('VERSION = "1.0.0"\n' + SAMPLE)
    return BuildRequest(
        target_id=str(uuid.uuid4()),
        version="1.0.0",
        source_dir=tree,
        timeout_seconds=300,
    )


@pytest.fixture
def spec(backend: Backend, build_request: BuildRequest) -> Iterator[WorkloadSpec]:
    """Return a built workload, and delete it afterwards."""
    artifact = backend.builder.build(build_request, lambda line: None)
    yield WorkloadSpec(
        workload_id=build_request.target_id,
        instance_id=str(uuid.uuid4()),
        reference=artifact.reference,
    )
    backend.runtime.delete(build_request.target_id)
    backend.builder.remove(artifact.reference)


@pytest.fixture
def second(
    backend: Backend, spec: WorkloadSpec, build_request: BuildRequest
) -> Iterator[WorkloadSpec]:
    """Return a second version of the same workload."""
    main = build_request.source_dir / "main.py"
    main.write_text('VERSION = "1.1.0"\n' + SAMPLE)
    request = replace(build_request, version="1.1.0")
    artifact = backend.builder.build(request, lambda line: None)
    yield replace(spec, instance_id=str(uuid.uuid4()), reference=artifact.reference)
    backend.builder.remove(artifact.reference)
