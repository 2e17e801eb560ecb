"""What keeps the workers busy? A thread that enqueues as fast as jobs are taken."""

from __future__ import annotations

import random
import threading
import traceback
from uuid import UUID

from django.db import connection

from buildqueue.models import BuildJob
from buildqueue.queue import enqueueing
from buildqueue.states import JobStatus

from .patience import patiently
from .payloads import drawn

BACKLOG = 16  # jobs that could run at once
LOOK_SECONDS = 0.25
OWNERS = ("anna", "ben", "cleo")
KEYS = ("left", "right")  # under which one job runs at a time
CLAIMABLE = (JobStatus.PENDING, JobStatus.SCHEDULED, JobStatus.IN_PROGRESS)


class Work(threading.Thread):
    """Enqueues until told to stop; knows what the database has acknowledged."""

    def __init__(self, seed: int, least: int) -> None:
        super().__init__(name="work", daemon=True)
        self._rng = random.Random(f"work {seed}")
        self._least = least
        self._stopping = threading.Event()
        self.acknowledged: list[UUID] = []
        self.trouble = ""

    def stop(self) -> None:
        """Enqueue no more than what is missing."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Keep the backlog filled."""
        try:
            while not self._stopping.wait(LOOK_SECONDS):
                for _ in range(BACKLOG - patiently(_claimable)):
                    self._one()
            while len(self.acknowledged) < self._least:
                self._one()
        except BaseException:  # told by the run, which would otherwise only see silence
            self.trouble = traceback.format_exc()
        finally:
            connection.close()

    def _one(self) -> None:
        payload = drawn(self._rng)
        few = self._rng.random() < 0.15
        options = {
            "owner_id": self._rng.choice(OWNERS),
            "priority": self._rng.choice((0, 0, 0, 10)),
            "max_attempts": 3 if few else 12,
            "serial_key": self._rng.choice(KEYS) if self._rng.random() < 0.1 else None,
        }
        # Asked again after a lost answer there may be two: both are looked at.
        job = patiently(lambda: enqueueing.enqueue(payload, **options))
        self.acknowledged.append(job.pk)


def _claimable() -> int:
    return BuildJob.objects.filter(status__in=CLAIMABLE).count()
