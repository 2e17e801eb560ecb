"""What do the domain's tests start from? Fake backends, and a worker in this process."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from buildqueue.builds.submission import Submission, submit_upload
from buildqueue.executors import base, host, services
from buildqueue.models import Agent, AgentBuild, BuildJob
from buildqueue.queue import claiming, recovery
from buildqueue.queue.outcomes import Actor, Cause
from buildqueue.states import RunOutcome
from buildqueue.worker import runner
from tests.support.fakes import FakeBuilder, FakeRuntime
from tests.support.zips import zipped

ANNA = Actor(label="anna", id="1")
DIED = Cause(outcome=RunOutcome.CRASHED, code="crashed", message="its process died")


class Crash(BaseException):
    """Stands for the death of the process: nothing may catch it and go on."""


@dataclass(slots=True)
class World:
    """The backends of a test, and its worker."""

    builder: FakeBuilder
    runtime: FakeRuntime
    interfered: bool = False

    def work(self, limit: int = 30) -> list[BuildJob]:
        """Run jobs as a worker of this host until none is due; return the runs."""
        ran: list[BuildJob] = []
        while job := self.run_next():
            ran.append(job)
            assert len(ran) < limit, "a job is run for ever"
        return ran

    def run_next(self) -> BuildJob | None:
        """Claim one job, run it, and bury its process."""
        scope = claiming.Scope(capabilities=tuple(services.capabilities()))
        holder = claiming.Holder(
            worker=uuid.uuid4(),
            slot=uuid.uuid4(),
            pid=1,
            lease=timedelta(minutes=1),
        )
        claimed = claiming.claim(scope, holder)
        if not claimed:
            return None
        try:
            runner.run(claimed[0])
        except Crash:
            pass
        finally:
            recovery.rescue_slot(holder.slot, DIED, started=claimed[0].lease_id)
        return claimed[0]

    def interfere(self, point: str, act: Any) -> None:
        """Do something once when the executor reaches a point."""
        self.interfered = False

        def at(reached: str) -> None:
            if reached == point and not self.interfered:
                self.interfered = True
                act()

        self.builder.at = self.runtime.at = at


@pytest.fixture
def world(
    committed: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """Return a world of fakes, with a data folder of its own."""
    settings.BUILDQUEUE = {
        **django_settings.BUILDQUEUE,
        "DATA_DIR": tmp_path,
        "BACKOFF_BASE_SECONDS": 0.001,
        "HEALTH_TRIES": 3,
        "HEALTH_INTERVAL_SECONDS": 0.01,
    }
    builder = FakeBuilder()
    runtime = FakeRuntime(builder)
    monkeypatch.setattr(base, "builder", lambda: builder)
    monkeypatch.setattr(base, "runtime", lambda: runtime)
    host.mark_in_use()
    yield World(builder=builder, runtime=runtime)
    builder.at = runtime.at = lambda point: None
    runtime.close()


def upload(
    name: str = "echo", *, owner: str = "1", program: str = "# hello\n", **options: Any
) -> Submission:
    """Submit a small agent."""
    files = {"main.py": program, **options.pop("files", {})}
    options.setdefault("caller", ANNA)
    return submit_upload(owner_id=owner, name=name, source=zipped(files), **options)


def job_of(found: Submission) -> BuildJob:
    """Return the job as it is now."""
    return BuildJob.objects.get(pk=found.job.pk)


def build_of(found: Submission) -> AgentBuild:
    """Return the build as it is now."""
    return AgentBuild.objects.get(pk=found.build.pk)


def agent_of(found: Submission) -> Agent:
    """Return the agent as it is now."""
    return Agent.objects.get(pk=found.agent.pk)


def version_at(url: str | None) -> str | None:
    """Return the version that answers at an address, if one does."""
    try:
        with urllib.request.urlopen(f"{url}/", timeout=30) as answer:
            return str(json.load(answer)["version"])
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (OSError, ValueError):
        return None
