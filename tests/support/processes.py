"""How does a test run a real worker, and how is it sure that nothing stays behind?

`Workers.start` runs `manage.py runworker` on the test's own database, with settings made
short. Every process it starts carries a mark in its environment, so the end of the test
finds what is left, in whatever session it hides, and fails when killing the supervisor
did not end it all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from django.db import connection

from buildqueue.models import Worker
from buildqueue.states import WorkerStatus

from .waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
MARK = "BUILDQUEUE_TEST_MARK"
FAST: dict[str, Any] = {
    "RESCUE_SECONDS": 0.5,
    "MAINTENANCE_SECONDS": 0.5,
    "WATCH_SECONDS": 0.3,
    "WATCH_GRACE_SECONDS": 1.5,
    "KILL_GRACE_SECONDS": 2.0,
    "BACKOFF_BASE_SECONDS": 0.05,
    "BACKOFF_MAX_SECONDS": 0.1,
    "POLL_SECONDS": 60.0,  # what starts sooner was told
}


def environment(**overrides: Any) -> dict[str, str]:
    """Return the environment of a management command on the test's database."""
    wanted = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
    database = {key: connection.settings_dict[key] for key in wanted}
    settings = {"DATABASES": {"default": database}} | overrides
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": str(ROOT),
        "BUILDQUEUE_TEST_OVERRIDES": json.dumps(settings),
    }


def command(*arguments: str) -> list[str]:
    """Return the argument list of a management command."""
    return [sys.executable, "-m", "django", *arguments]


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for process in psutil.process_iter():
        try:
            environ = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if wanted in environ and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (OSError, psutil.Error):  # it has just ended
            continue
    return found


@dataclass
class RunningWorker:
    """One `runworker` process."""

    popen: subprocess.Popen[bytes]
    mark: str
    log: Path

    @property
    def pid(self) -> int:
        """Return the supervisor's pid."""
        return self.popen.pid

    @property
    def row(self) -> Worker:
        """Return the worker's row."""
        return Worker.objects.get(pid=self.pid)

    def wait_ready(self) -> RunningWorker:
        """Wait until it listens: what is enqueued now is told to it."""
        wait_until(self._listens, message=self.output)
        return self

    def _listens(self) -> bool:
        assert self.popen.poll() is None, f"the worker ended:\n{self.output()}"
        listening = Worker.objects.filter(pid=self.pid, direct=True)
        return listening.filter(status=WorkerStatus.RUNNING).exists()

    def signal(self, number: int) -> None:
        """Send the supervisor a signal."""
        self.popen.send_signal(number)

    def wait(self, timeout: float = 60.0) -> int:
        """Wait for the supervisor's end; return its exit code."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.output()}") from None

    def below(self) -> list[psutil.Process]:
        """Return the living processes that it started, whatever became of it."""
        return [p for p in marked(self.mark) if p.pid != self.pid]

    def all_gone(self) -> bool:
        """Tell whether nothing that it started lives."""
        return not self.below()

    def find(self, word: str) -> list[psutil.Process]:
        """Return those of them whose command line contains the word."""
        found = []
        for process in self.below():
            try:
                if word in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def output(self) -> str:
        """Return all that it printed."""
        return self.log.read_text(errors="replace")


@dataclass
class Workers:
    """The workers of one test."""

    folder: Path
    started: list[RunningWorker] = field(default_factory=list)

    def start(
        self,
        *arguments: str,
        ready: bool = True,
        apps: tuple[str, ...] = (),
        databases: dict[str, Any] | None = None,
        prefix: tuple[str, ...] = (),
        code: Path = ROOT,
        **settings: Any,  # e.g. lease_seconds=3
    ) -> RunningWorker:
        """Start a worker; settings are `BUILDQUEUE`'s, over the fast ones.

        `databases` are DATABASES in place of the test's own; `prefix` is what the
        command is run by, `code` the folder of another version's code.
        """
        mark = uuid.uuid4().hex
        log = self.folder / f"worker-{len(self.started)}.log"
        chosen = FAST | {name.upper(): value for name, value in settings.items()}
        others = {"DATABASES": databases} if databases else {}
        wanted = {"BUILDQUEUE": chosen, "INSTALLED_APPS": list(apps)} | others
        env = environment(**wanted) | {MARK: mark, "PYTHONPATH": str(code)}
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [*prefix, *command("runworker", *arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=code,
                start_new_session=True,
            )
        worker = RunningWorker(popen, mark, log)
        self.started.append(worker)
        return worker.wait_ready() if ready else worker

    def end(self) -> None:
        """Kill every supervisor; all below must go by itself."""
        left: list[psutil.Process] = []
        for worker in self.started:
            if worker.popen.poll() is None:
                worker.signal(signal.SIGKILL)
                worker.wait()
        try:
            for worker in self.started:
                wait_until(worker.all_gone, message=worker.below)
        finally:
            for worker in self.started:
                left += worker.below()
                print(f"--- worker {worker.pid}\n{worker.output()}")
            for process in left:
                process.kill()
