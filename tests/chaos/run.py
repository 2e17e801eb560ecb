"""How does a run go? Faults while jobs flow, then calm, then an end, then the checks.

All that it starts is ended with it, whatever happens. Importing this needs Django set up
on the run's own database.
"""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection

from buildqueue.models import BuildJob, JobRun

from . import counter, faults, loading, report, unfenced
from .faults import CLASSES, Faults
from .fleet import Fleet
from .history import History
from .invariants import every_job_is_settled
from .network import other_host
from .patience import patiently
from .people import People
from .server import Server, deadlocks
from .work import CLAIMABLE, Work

SUPERVISORS = 4
JOBS_A_MINUTE = 50  # at least, children not counted
FAULTS_A_MINUTE = 0.5  # of each class, at least; one in any case
DRAIN_SECONDS = 180.0


@dataclass(slots=True, kw_only=True)
class ChaosRun:
    """One run on a server that is up."""

    server: Server
    folder: Path
    minutes: float
    seed: int
    fenced: bool = True
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def least_jobs(self) -> int:
        """Return how many jobs must have been put in."""
        return max(1, int(JOBS_A_MINUTE * self.minutes))

    @property
    def least_faults(self) -> int:
        """Return how often each class must have been struck."""
        return max(1, int(FAULTS_A_MINUTE * self.minutes))

    def go(self) -> bool:
        """Run, print, and tell whether all is well."""
        call_command("migrate", run_syncdb=True, verbosity=0)
        if not self.fenced:
            with connection.cursor() as cursor:
                cursor.execute(unfenced.BLIND_TRIGGER)
        with ExitStack() as stack:
            port = stack.enter_context(counter.counting())
            network = stack.enter_context(other_host(self.server.socket))
            fleet = Fleet(self.folder, self.server, network, port, fenced=self.fenced)
            stack.callback(fleet.end)
            struck = Faults(fleet, self.server, network, self._rng("faults"))
            stack.callback(struck.make_all_good)
            where = "a network of its own" if network.space else "a bridge"
            print(f"the last worker is on another host, behind {where}", flush=True)
            history = self._history(fleet, struck, port)
        return self._tell(history)

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{purpose} {self.seed}")

    def _history(self, fleet: Fleet, struck: Faults, port: int) -> History:
        fleet.start(SUPERVISORS)
        work, people = Work(self.seed, self.least_jobs), People(self.seed)
        work.start()
        people.start()
        begun = time.monotonic()
        struck.strike_until(
            begun + 60 * self.minutes,
            self.least_faults,
            lambda: not _troubles(work, people),
        )
        struck.outlast()
        work.stop()
        people.calm_down()
        calm = time.monotonic()
        self._drain(fleet, people)
        people.stop()
        fleet.stop()
        ended = {
            "processes": tuple(fleet.left()),
            "strange_ends": (*fleet.ended_by_themselves, *_troubles(work, people)),
        }
        log = self.server.log()
        self.facts |= {
            "supervisors": len(fleet.marks),
            "people": people.did,
            "struck_seconds": calm - begun,
            "drain_seconds": time.monotonic() - calm,
            "refused": sum("is no longer held" in line for line in log),
            "deadlocks": deadlocks(log),
        }
        return History(
            **loading.load(),
            **ended,
            acknowledged=tuple(work.acknowledged),
            outside=counter.counted(port),
            faults=tuple(struck.struck),
            facts=self.facts,
        )

    def _drain(self, fleet: Fleet, people: People) -> None:
        """Wait until every job has ended or waits for somebody, and every run has ended."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline and not people.trouble:
            patiently(fleet.keep)
            if patiently(_settled):
                return
            time.sleep(0.5)

    def _tell(self, history: History) -> bool:
        lines, well = report.checks(history)
        began = min((f.at for f in history.faults), default=datetime.now().astimezone())
        for fault in history.faults:
            print(report.struck(fault, began))
        facts = history.facts
        print()
        print("\n".join(report.faults_table(history, CLASSES)))
        print()
        print("\n".join(report.jobs_table(history)))
        print(report.told("people", facts["people"]))
        print(
            f"{len(history.faults)} faults in {facts['struck_seconds']:.0f} s, "
            f"{facts['supervisors']} supervisors, calm after "
            f"{facts['drain_seconds']:.0f} s, "
            f"writes that the fence refused: {facts['refused']}"
        )
        print()
        print("\n".join(lines))
        few = report.few_of(history.faults, faults.CLASSES, self.least_faults)
        told = f"FAIL ({', '.join(few)})" if few else "PASS"
        print(f"{told:<11} each class of fault at least {self.least_faults} times")
        enough = len(history.acknowledged) >= self.least_jobs
        told = "PASS" if enough else "FAIL"
        print(f"{told:<12}at least {self.least_jobs} jobs: {len(history.jobs)}")
        return well and not few and enough


def _settled() -> bool:
    if BuildJob.objects.filter(status__in=CLAIMABLE).exists():
        return False
    if JobRun.objects.filter(ended_at=None).exists():
        return False
    return every_job_is_settled(History(**loading.load())).holds


def _troubles(work: Work, people: People) -> list[str]:
    return [each.trouble for each in (work, people) if each.trouble]
