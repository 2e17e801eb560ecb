"""Which workers are there? Supervisors of two slots, on this host and on another.

Each carries a mark of its own in its environment, so that what it leaves behind is found
wherever it hides. One that ends is replaced at once; one that ends by itself is told.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from buildqueue.models import Worker
from buildqueue.states import WorkerStatus
from tests.support.processes import MARK, command, environment, marked
from tests.support.waiting import wait_until

from . import counter, unfenced
from .network import Network
from .patience import patiently
from .server import Server

APPLICATION = "chaos-worker"  # of the workers' sessions
LEASE_SECONDS = 6.0
SETTINGS: dict[str, Any] = {
    "LEASE_SECONDS": LEASE_SECONDS,
    "RENEWAL_SECONDS": 2.0,
    "RESCUE_SECONDS": 1.0,
    "WATCH_SECONDS": 0.5,
    "WATCH_GRACE_SECONDS": 2.0,
    "MAINTENANCE_SECONDS": 2.0,
    "KILL_GRACE_SECONDS": 2.0,
    "BACKOFF_BASE_SECONDS": 0.2,
    "BACKOFF_MAX_SECONDS": 1.0,
    "POLL_SECONDS": 1.0,
    "DRAIN_SECONDS": 20.0,
    "SLOT_MAX_JOBS": 25,
}


@dataclass(slots=True)
class Member:
    """One supervisor and all that is below it."""

    number: int
    popen: subprocess.Popen[bytes]
    mark: str
    remote: bool  # on the other host
    impaired: bool = False  # frozen or cut off: leave it alone
    wanted_end: bool = False  # we have ended it
    worker: uuid.UUID | None = None  # its row, once it has been ready

    @property
    def usable(self) -> bool:
        """Whether it runs as it should, and can be hit."""
        return not self.impaired and not self.wanted_end and self.worker is not None

    def tree(self) -> list[psutil.Process]:
        """Return its living processes, itself first."""
        found = marked(self.mark)
        return sorted(found, key=lambda process: process.pid != self.popen.pid)


@dataclass(slots=True)
class Fleet:
    """All supervisors, those that are gone included."""

    folder: Path
    server: Server
    network: Network
    counter_port: int
    fenced: bool = True
    members: list[Member] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    ended_by_themselves: list[str] = field(default_factory=list)

    def start(self, count: int) -> None:
        """Start the first ones; the last is on the other host."""
        for number in range(1, count + 1):
            self.members.append(self._start(number, remote=number == count))
        wait_until(
            lambda: self.keep() or all(m.worker for m in self.members),
            message=f"not all workers came up; see {self.folder}",
        )

    def usable(self) -> list[Member]:
        """Return those that can be hit."""
        return [member for member in self.members if member.usable]

    def keep(self) -> None:
        """Learn who is ready, and replace who has ended."""
        for place, member in enumerate(self.members):
            code = member.popen.poll()
            if code is not None:
                if not member.wanted_end and member.worker is not None:
                    told = f"worker {member.number} ended with {code}"
                    self.ended_by_themselves.append(told)
                self.members[place] = self._start(member.number, remote=member.remote)
            elif member.worker is None:
                member.worker = _row_of(member)

    def freeze(self, member: Member) -> None:
        """Stop the supervisor and all below it, the supervisor first."""
        member.impaired = True
        _signal(member.tree(), signal.SIGSTOP)

    def thaw(self, member: Member, rng: random.Random) -> None:
        """Let them go on, in any order: a slot before its guardian, too."""
        tree = member.tree()
        rng.shuffle(tree)
        _signal(tree, signal.SIGCONT)
        member.impaired = False

    def stop(self) -> None:
        """Have all end in good order; what does not is killed and stays to be seen."""
        for member in self.members:
            member.wanted_end = True
            member.popen.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        for member in self.members:
            with suppress(subprocess.TimeoutExpired):
                member.popen.wait(max(1.0, deadline - time.monotonic()))
            if member.popen.poll() is None:
                told = f"worker {member.number} did not end when told to"
                self.ended_by_themselves.append(told)
                member.popen.kill()
                member.popen.wait()

    def left(self) -> list[str]:
        """Return the processes that live though their supervisor is gone."""
        deadline = time.monotonic() + 15
        while found := [p for mark in self.marks for p in marked(mark)]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        return [f"{process.pid} {' '.join(_cmdline(process))}" for process in found]

    def end(self) -> None:
        """Kill whatever is left."""
        for member in self.members:
            member.popen.kill()
            member.popen.wait()
        for mark in self.marks:
            for process in marked(mark):
                with suppress(psutil.Error):
                    process.kill()

    def _start(self, number: int, *, remote: bool) -> Member:
        mark = uuid.uuid4().hex
        self.marks.append(mark)
        log = self.folder / f"worker-{number}.log"
        before = self.network.prefix if remote else []
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [*before, *command("runworker", "--slots", "2")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(number, remote=remote) | {MARK: mark},
                start_new_session=True,
            )
        return Member(number=number, popen=popen, mark=mark, remote=remote)

    def _environment(self, number: int, *, remote: bool) -> dict[str, str]:
        database = self.server.settings
        database["OPTIONS"] = {"application_name": f"{APPLICATION}-{number}"}
        host = "127.0.0.1"
        if remote:
            host = self.network.address
            database |= {"HOST": host, "PORT": str(self.network.port)}
        told = environment(
            DATABASES={"default": database},
            BUILDQUEUE=SETTINGS,
            INSTALLED_APPS=["tests.chaos"],
        )
        told |= {counter.ADDRESS: f"{host}:{self.counter_port}"}
        return told if self.fenced else told | {unfenced.VARIABLE: "1"}


def _row_of(member: Member) -> uuid.UUID | None:
    rows = Worker.objects.filter(pid=member.popen.pid, status=WorkerStatus.RUNNING)
    newest = rows.filter(direct=True).order_by("-started_at")
    return patiently(lambda: newest.values_list("pk", flat=True).first())


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _cmdline(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return ["?"]
