"""What do the tests of the build system's verbs start from? An owner, and a folder."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser

from buildqueue.models import Agent, AgentDeployment, AgentVersion, LogChunk
from buildqueue.queue import logs
from tests.factories import make_agent, make_build, make_user
from tests.integration.builds.conftest import World, world

__all__ = ["world"]

Typing = Callable[..., None]


class Piped(io.TextIOWrapper):
    """A standard input with these bytes, of a terminal or not."""

    def __init__(self, content: bytes, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Typing:
    """Return a function that puts text into the standard input."""

    def put(content: bytes | str = b"", *, is_terminal: bool = False) -> None:
        raw = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", Piped(raw, is_terminal=is_terminal))

    put()
    return put


@pytest.fixture
def anna(db: None, tmp_path: Path, settings: Any) -> AbstractUser:
    """Return an owner, on a host with a folder of its own."""
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "DATA_DIR": tmp_path / "host"}
    return make_user("anna")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the source of an agent."""
    made = tmp_path / "echo"
    made.mkdir()
    (made / "main.py").write_text("# hello\n")
    return made


@pytest.fixture
def at_work(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Have a worker run what is due whenever the command waits."""

    def work(seconds: float) -> None:
        for job in world.work():
            made = LogChunk(
                job_id=job.pk,
                run_id=job.pk,
                attempt=1,
                seq=1,
                stream="stdout",
                text=f"working on {job.kind}\n",
            )
            LogChunk.objects.bulk_create([made], ignore_conflicts=True)

    monkeypatch.setattr("buildqueue.management.logs_text.time.sleep", work)
    monkeypatch.setattr(logs, "SETTLES_SECONDS", 0)
    return world


def running_agent(owner: AbstractUser, **values: Any) -> Agent:
    """Make an agent of which version 1.0.0 runs, and 0.9.0 ran before."""
    made = make_agent(str(owner.pk), status="running", name="echo", **values)
    build = make_build(made)
    AgentVersion.objects.create(
        agent=made, version="0.9.0", status="archived", can_rollback=True
    )
    AgentVersion.objects.create(
        agent=made, version="1.0.0", status="active", is_active=True
    )
    AgentDeployment.objects.create(agent=made, build=build, status="running")
    return made
