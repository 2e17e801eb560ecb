"""What goes wrong, when, and whom does it hit? Every class in turn, shuffled by the seed.

A fault is struck on somebody who has a run, wherever there is one, and written down with
its moment and the runs that it hit. What is frozen or cut goes on after a time that is
longer than a lease; half of the fleet is left alone at any moment.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

import psutil
from django.db import connection

from buildqueue.models import BuildJob
from buildqueue.states import JobStatus

from .fleet import APPLICATION, LEASE_SECONDS, Fleet, Member
from .history import Fault, Hit
from .network import Network
from .patience import patiently
from .server import Server

LEFT_ALONE = 2  # workers that are neither frozen nor cut
LONGER_THAN_A_LEASE = (LEASE_SECONDS + 1.5, LEASE_SECONDS + 4.0)
PAUSES = (1.0, 4.0)  # between two faults
NOBODY_TO_HIT = 0.3
LONGEST_OVERTIME = 120.0  # for classes that nobody was there for
SESSIONS = """
SELECT pid, application_name FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE %s ORDER BY pid
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A run that could be hit."""

    hit: Hit
    pid: int
    worker: UUID


@dataclass(slots=True)
class Faults:
    """Strikes, writes down, and makes good."""

    fleet: Fleet
    server: Server
    network: Network
    rng: random.Random
    struck: list[Fault] = field(default_factory=list)
    _undo: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def strike_until(self, moment: float, least: int, well: Callable[[], bool]) -> None:
        """Strike until the monotonic moment, and until there were enough of each.

        No longer than all is `well` with the rest of the run.
        """
        classes: dict[str, Callable[[], Fault | None]] = {
            name: partial(getattr(self, f"_{name}")) for name in CLASSES
        }
        bag: list[str] = []
        due = time.monotonic()
        while time.monotonic() < moment or self._missing(least):
            if time.monotonic() > moment + LONGEST_OVERTIME or not well():
                return  # the counts tell, or the rest does
            self._make_good(time.monotonic())
            patiently(self.fleet.keep)
            if time.monotonic() < due:
                time.sleep(0.05)
                continue
            bag = bag or self.rng.sample(CLASSES, len(CLASSES))
            name = bag.pop()
            fault = classes[name]()
            if fault is None:
                bag.insert(0, name)
                due = time.monotonic() + NOBODY_TO_HIT
            else:
                self.struck.append(fault)
                due = time.monotonic() + self.rng.uniform(*PAUSES)

    def outlast(self) -> None:
        """Have what is frozen or cut stay so for its full time, then go on."""
        while self._undo:
            self._make_good(time.monotonic())
            patiently(self.fleet.keep)
            time.sleep(0.05)

    def make_all_good(self) -> None:
        """Let all go on at once: the run is over."""
        self._make_good(float("inf"))

    def _missing(self, least: int) -> bool:
        counts = Counter(fault.name for fault in self.struck)
        return any(counts[name] < least for name in CLASSES)

    def _make_good(self, now: float) -> None:
        for entry in [entry for entry in self._undo if entry[0] <= now]:
            self._undo.remove(entry)
            entry[1]()

    def _later(self, seconds: float, undo: Callable[[], None]) -> None:
        self._undo.append((time.monotonic() + seconds, undo))

    # -- whom ---------------------------------------------------------------------

    def _running(self, worker: UUID | None = None) -> list[Running]:
        """Return the runs under way, of one worker or of all that may be hit."""
        jobs = BuildJob.objects.filter(status=JobStatus.IN_PROGRESS)
        if worker is not None:
            jobs = jobs.filter(worker=worker)
        rows = jobs.filter(runs__ended_at=None).order_by("picked_at")
        fields = rows.values_list("pk", "lease_id", "runs__pid", "worker")
        return [
            Running(Hit(job=job, lease=lease), pid, at)
            for job, lease, pid, at in patiently(lambda: list(fields))
        ]

    def _one_running(self) -> Running | None:
        usable = {member.worker for member in self.fleet.usable()}
        found = [run for run in self._running() if run.worker in usable]
        return self.rng.choice(found) if found else None

    def _one_busy(self, *, spare: int = 0, remote: bool | None = None) -> Member | None:
        """Return a worker that has a run, if enough others are left."""
        usable = self.fleet.usable()
        if len(usable) <= spare:
            return None
        busy = {run.worker for run in self._running()}
        found = [m for m in usable if m.worker in busy and remote in (None, m.remote)]
        return self.rng.choice(found) if found else None

    def _fault(self, name: str, target: str, hits: list[Running]) -> Fault:
        now = datetime.now().astimezone()
        return Fault(
            name=name, at=now, target=target, hits=tuple(run.hit for run in hits)
        )

    # -- what ---------------------------------------------------------------------

    def _slot_killed(self) -> Fault | None:
        run = self._one_running()
        return run and self._signalled("slot_killed", run, run.pid, signal.SIGKILL)

    def _guardian_killed(self) -> Fault | None:
        run = self._one_running()
        if run is None:
            return None
        with suppress(psutil.Error):
            guardian = psutil.Process(run.pid).ppid()
            supervisors = {m.popen.pid for m in self.fleet.members}
            if guardian > 1 and guardian not in supervisors:
                return self._signalled("guardian_killed", run, guardian, signal.SIGKILL)
        return None

    def _slot_frozen(self) -> Fault | None:
        run = self._one_running()
        if run is None:
            return None
        fault = self._signalled("slot_frozen", run, run.pid, signal.SIGSTOP)
        if fault is not None:
            seconds = self.rng.uniform(0.5, LEASE_SECONDS + 3.0)
            self._later(seconds, partial(_go_on, psutil.Process(run.pid)))
        return fault

    def _signalled(
        self, name: str, run: Running, pid: int, number: int
    ) -> Fault | None:
        fault = self._fault(name, f"process {pid}", [run])
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # it has just ended
            return None
        return fault

    def _supervisor_killed(self) -> Fault | None:
        member = self._one_busy(spare=LEFT_ALONE)
        if member is None:
            return None
        hits = self._running(member.worker)
        fault = self._fault("supervisor_killed", f"worker {member.number}", hits)
        member.wanted_end = True
        member.popen.kill()
        return fault

    def _tree_frozen(self) -> Fault | None:
        member = self._one_busy(spare=LEFT_ALONE)
        if member is None:
            return None
        hits = self._running(member.worker)
        fault = self._fault("tree_frozen", f"worker {member.number}", hits)
        self.fleet.freeze(member)
        seconds = self.rng.uniform(*LONGER_THAN_A_LEASE)
        self._later(seconds, partial(self.fleet.thaw, member, self.rng))
        return fault

    def _network_cut(self) -> Fault | None:
        member = self._one_busy(spare=LEFT_ALONE, remote=True)
        if member is None:
            return None
        hits = self._running(member.worker)
        fault = self._fault("network_cut", f"worker {member.number}", hits)
        member.impaired = True
        self.network.cut()
        self._later(self.rng.uniform(*LONGER_THAN_A_LEASE), partial(self._mend, member))
        return fault

    def _mend(self, member: Member) -> None:
        self.network.mend()
        member.impaired = False

    def _session_ended(self) -> Fault | None:
        def sessions() -> list[tuple[int, str]]:
            with connection.cursor() as cursor:
                cursor.execute(SESSIONS, [f"{APPLICATION}-%"])
                return list(cursor.fetchall())

        busy = {m.number: m for m in self.fleet.usable() if self._running(m.worker)}
        found = patiently(sessions)
        found = [(p, n) for p, n in found if int(n.rpartition("-")[2]) in busy]
        if not found:
            return None
        pid, name = self.rng.choice(found)
        hits = self._running(busy[int(name.rpartition("-")[2])].worker)
        fault = self._fault("session_ended", f"back end {pid} of {name}", hits)
        patiently(partial(_terminate, pid))
        return fault

    def _server_crashed(self) -> Fault | None:
        return self._restarted("server_crashed", self.server.stop_immediately)

    def _server_restarted(self) -> Fault | None:
        return self._restarted("server_restarted", self.server.stop_fast)

    def _restarted(self, name: str, stop: Callable[[], None]) -> Fault | None:
        hits = self._running()
        if not hits:
            return None
        fault, begun = self._fault(name, "PostgreSQL", hits), time.monotonic()
        stop()
        time.sleep(self.rng.uniform(0.0, 1.5))
        self.server.start()
        away = time.monotonic() - begun
        return replace(fault, target=f"PostgreSQL, away for {away:.1f} s")


CLASSES = [
    "slot_killed",
    "guardian_killed",
    "supervisor_killed",
    "tree_frozen",
    "slot_frozen",
    "session_ended",
    "server_crashed",
    "server_restarted",
    "network_cut",
]


def _go_on(process: psutil.Process) -> None:
    with suppress(psutil.Error):  # it was ended meanwhile, or its number is another's
        process.send_signal(signal.SIGCONT)


def _terminate(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
