"""What is a host in a test? A folder, real workers on it, and the local runtime they start.

Agents are small programs without requirements that tell their version and their process,
so that a test sees which one answers. What it leaves on the machine is gone at its end.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.test import override_settings

from buildqueue.backends.base import WorkloadStatus
from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.builds import submission
from buildqueue.builds.submission import Submission
from buildqueue.exceptions import BackendError
from buildqueue.executors import base, host
from buildqueue.models import Agent, AgentDeployment, AgentVersion, BuildJob, JobEvent
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from tests.host import dying
from tests.support.jobs import wait_for
from tests.support.processes import RunningWorker, Workers
from tests.support.waiting import wait_until

ANNA = Actor(label="anna", id="1")
PHASES = (
    "fetch",
    "verify",
    "build",
    "publish",
    "deploy",
    "health",
    "activate",
    "clean",
)
PROGRAM = """
import json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
{before}
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        told = {{"version": {version!r}, "pid": os.getpid(), "env": dict(os.environ)}}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answer).serve_forever()
"""


def program(version: str = "1.0.0", *, before: str = "") -> str:
    """Return an agent that says it is this version; `before` comes before it listens."""
    return PROGRAM.format(version=version, before=before)


def late(seconds: float) -> str:
    """Return what makes an agent listen so much later."""
    return f"threading.Event().wait({seconds})"


def packed(files: dict[str, str]) -> io.BytesIO:
    """Return a zip of the files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream


def agent_zip(version: str, *, before: str = "", **files: str) -> io.BytesIO:
    """Return the source of an agent of this version."""
    return packed({"main.py": program(version, before=before), **files})


def upload(
    name: str = "echo",
    version: str = "1.0.0",
    *,
    owner: str = "1",
    before: str = "",
    files: dict[str, str] | None = None,
) -> Submission:
    """Submit an agent's first version."""
    source = agent_zip(version, before=before, **(files or {}))
    return submission.submit_upload(
        owner_id=owner, caller=ANNA, name=name, source=source, version=version
    )


def update(
    agent: Agent,
    version: str,
    *,
    before: str = "",
    files: dict[str, str] | None = None,
) -> Submission:
    """Submit the agent's next version."""
    source = agent_zip(version, before=before, **(files or {}))
    return submission.submit_update(agent, caller=ANNA, source=source, version=version)


def wait_step(job: BuildJob, name: str) -> None:
    """Wait until the job has begun a step."""
    begun = JobEvent.objects.filter(job=job, kind="step_started", title=name)
    wait_until(begun.exists, message=lambda: list(JobEvent.objects.values("title")))


def done(job: BuildJob, timeout: float = 120.0) -> None:
    """Wait for the job's end, which must be a good one."""
    ended = wait_for(job, timeout=timeout)
    assert ended.status == JobStatus.DONE, f"{ended.error_code}: {ended.error_msg}"


def ask(agent: Agent) -> Any:
    """Return what the agent says at its address."""
    agent.refresh_from_db()
    assert agent.url is not None
    with urllib.request.urlopen(agent.url, timeout=30) as answer:
        return json.load(answer)


def steps(job: BuildJob, kind: str) -> list[str]:
    """Return the titles of the job's events of a kind, in order."""
    found = JobEvent.objects.filter(job=job, kind=kind).order_by("pk")
    return list(found.values_list("title", flat=True))


def versions_of(agent: Agent) -> dict[str, str]:
    """Return version to status."""
    rows = AgentVersion.objects.filter(agent=agent)
    return dict(rows.values_list("version", "status"))


def deployments_of(agent: Agent) -> list[str]:
    """Return the statuses of the agent's deployments, oldest first."""
    rows = AgentDeployment.objects.filter(agent=agent).order_by("created_at")
    return list(rows.values_list("status", flat=True))


class Host:
    """One host's folder, with the workers and the local runtime on it."""

    def __init__(self, workers: Workers, folder: Path, deaths: Path) -> None:
        self._workers, self._folder, self._deaths = workers, folder, deaths

    def worker(self, *arguments: str, **settings: Any) -> RunningWorker:
        """Start a worker; settings are `BUILDQUEUE`'s."""
        given: dict[str, Any] = {
            "data_dir": str(self._folder),
            "local_allow_unconfined": True,
            "health_interval_seconds": 0.5,
            "host_services": ["buildqueue.executors.services.local_runtime_in_use"],
            "capabilities": ["buildqueue.executors.services.capabilities"],
            "duties": ["buildqueue.executors.reconcile.reconcile_host"],
        }
        apps = ("tests.host.dying.DyingConfig",)
        return self._workers.start(*arguments, apps=apps, **given | settings)

    def dying(self, ask: Callable[[], Submission], death: dying.Death) -> Submission:
        """Submit what the job's process is to die in, told before it can be claimed."""
        with transaction.atomic():
            made = ask()
            dying.order(self._deaths, made.job.pk, death)
        return made

    def let_go(self, made: Submission) -> None:
        """Let a process that waits to die go on."""
        dying.withdraw(self._deaths, made.job.pk)

    @property
    def runtime(self) -> LocalRuntime:
        """Return the runtime of this host."""
        return LocalRuntime(host.local_root())

    def daemon(self) -> int | None:
        """Return the pid of the runtime; None while none answers."""
        try:
            return int(str(self.runtime.ping()["pid"]))
        except BackendError:
            return None

    def status(self, agent: Agent) -> WorkloadStatus:
        """Return what the runtime sees of the agent."""
        found = self.runtime.status(str(agent.pk))
        assert found is not None, f"the runtime does not know {agent.name}"
        return found

    def processes_of(self, agent_id: object) -> list[psutil.Process]:
        """Return the living processes whose command line or folder names the agent."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = [*process.cmdline(), process.cwd()]
                if str(agent_id) in " ".join(words):
                    found.append(process)
        return found

    def keepers(self) -> list[int]:
        """Return the pids of the parents of instances, whoever has started them."""
        root, found = str(host.local_root()), []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                named = any(word.endswith(".keeper") for word in process.cmdline())
                if named and os.readlink(f"/proc/{process.pid}/fd/2").startswith(root):
                    found.append(process.pid)
        return found

    def tree_of(self, agent: Agent) -> set[int]:
        """Return the pids of the agent's instances and of all below them."""
        found = set()
        for instance in self.status(agent).instances:
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(instance.pid)
                found |= {each.pid for each in [root, *root.children(recursive=True)]}
        return found

    def scratch_of(self, agent: Agent) -> list[str]:
        """Return the instances for which there is a folder to write to."""
        folder = host.local_root() / "scratch" / str(agent.pk)
        return sorted(each.name for each in folder.glob("*"))

    def work_folders(self) -> list[str]:
        """Return the names of the work folders that are there."""
        return [folder.name for folder in base.work_root().glob("*")]

    def bundles_of(self, agent: Agent) -> list[str]:
        """Return the names of all that is there of the agent's artifacts."""
        folder = host.local_root() / "bundles" / str(agent.pk)
        return sorted(each.name for each in folder.glob("*") if each.is_dir())


@contextmanager
def host_in(workers: Workers, folder: Path) -> Iterator[Host]:
    """Have a host in the folder; its workers, runtime and agents are gone afterwards."""
    deaths = folder / "deaths"
    deaths.mkdir()
    changed = {**django_settings.BUILDQUEUE, "DATA_DIR": folder}
    with pytest.MonkeyPatch.context() as patched, override_settings(BUILDQUEUE=changed):
        patched.setenv(dying.FOLDER, str(deaths))
        made = Host(workers, folder, deaths)
        try:
            yield made
        finally:
            workers.end()  # a worker would start the runtime again
            if host.in_use():
                _end_runtime(made)
                shutil.rmtree(host.local_root())


def _end_runtime(made: Host) -> None:
    daemon = made.daemon()
    if daemon is None:
        return
    with suppress(BackendError):
        for workload in made.runtime.workloads():
            made.runtime.delete(workload.workload_id)
        made.runtime.shut_down(keep_instances=False)
        wait_until(lambda: not psutil.pid_exists(daemon), message=daemon)
