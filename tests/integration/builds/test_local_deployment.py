"""Does the sample agent run for real: built, confined, switched, replaced, removed?"""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.builds.retirement import delete_agent
from buildqueue.builds.submission import Submission, submit_upload
from buildqueue.executors import base
from buildqueue.models import AgentDeployment
from tests.support.fakes import FakeBuilder, FakeRuntime
from tests.support.localhost import local_backend
from tests.support.waiting import wait_until

from .conftest import ANNA, World, agent_of, build_of, job_of, upload

SAMPLE = Path(__file__).parents[3] / "project" / "demo" / "sample_agent"
# Answers with the names of its environment variables instead of a greeting.
TELLING = """
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"version": "1.0.0", "env": dict(os.environ)}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answer).serve_forever()
"""


@pytest.fixture
def local(
    committed: None, tmp_path: Path, settings: Any
) -> Iterator[tuple[World, LocalRuntime]]:
    """Return a worker whose backends are the real local ones."""
    settings.BUILDQUEUE = {
        **settings.BUILDQUEUE,
        "DATA_DIR": tmp_path,
        "LOCAL_ALLOW_UNCONFINED": True,
        "HEALTH_TRIES": 300,
        "HEALTH_INTERVAL_SECONDS": 0.2,
    }
    fakes = FakeBuilder()
    with local_backend(tmp_path / "local") as (_, runtime):
        yield World(builder=fakes, runtime=FakeRuntime(fakes)), runtime


def _sample(**changed: str) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path in sorted(SAMPLE.iterdir()):
            if path.is_file():
                archive.writestr(path.name, changed.get(path.name, path.read_text()))
    stream.seek(0)
    return stream


def _submit(source: io.BytesIO, **options: Any) -> Submission:
    return submit_upload(
        owner_id="1", caller=ANNA, name="echo", source=source, **options
    )


def _ask(url: str | None, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"{url}", data=data, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()
        return None


def test_the_sample_agent_is_built_deployed_replaced_and_removed(
    local: tuple[World, LocalRuntime],
) -> None:
    worker, runtime = local
    first = _submit(_sample())
    worker.work()

    agent = agent_of(first)
    assert (job_of(first).error_msg, agent.status) == (None, "running")
    assert (agent.version, agent.display_name) == ("1.0.0", "Echo")
    assert agent.skills[0]["id"] == "echo"
    wait_until(lambda: _ask(agent.url))
    assert _ask(agent.url) == {"message": "Good day from Echo"}
    asked = {"jsonrpc": "2.0", "id": 7, "method": "message/send", "params": {"a": 1}}
    assert _ask(agent.url, asked)["result"] == {"echo": {"a": 1}, "version": "1.0.0"}

    broken = _submit(_sample(**{"main.py": "raise SystemExit('no such module')"}))
    worker.work()
    assert job_of(broken).error_code == "start_failed"
    assert "no such module" in (build_of(broken).error_msg or "")
    assert _ask(agent.url) == {"message": "Good day from Echo"}

    card = json.loads((SAMPLE / "AgentCard.json").read_text()) | {"version": "1.1.0"}
    second = _submit(_sample(**{"AgentCard.json": json.dumps(card)}))
    worker.work()
    assert job_of(second).status == "done"
    assert agent_of(second).url == agent.url
    wait_until(lambda: _ask(agent.url, asked)["result"]["version"] == "1.1.0")

    delete_agent(agent_of(second), actor=ANNA)
    worker.work()
    assert runtime.workloads() == []
    with pytest.raises(OSError, match="refused"):
        _ask(agent.url)
    assert not AgentDeployment.objects.filter(status="running").exists()


def test_a_deployed_agent_sees_nothing_of_the_worker(
    local: tuple[World, LocalRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, _ = local
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:password@db/x")
    monkeypatch.setenv("SOME_SECRET", "plain")
    submitted = upload(program=TELLING)
    worker.work()

    url = agent_of(submitted).url
    env = wait_until(lambda: _ask(url))["env"]

    assert env["PORT"].isdigit()
    assert not {"DATABASE_URL", "SOME_SECRET", "DJANGO_SETTINGS_MODULE"} & set(env)
    assert "password" not in json.dumps(env)
    assert list(base.work_root().iterdir()) == []
