"""How do people and other workers see this worker? By its row, renewed with each beat.

A new row at each start, so that nothing of a dead worker is ever taken for a live one's.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from uuid import UUID

from django.db import InterfaceError, OperationalError

from .. import __version__
from ..models import Worker
from ..models.expressions import ClockTimestamp
from ..queue import database
from ..states import WorkerStatus
from .options import WorkerOptions
from .preflight import CannotWork


def register(options: WorkerOptions, able: list[str]) -> Worker:
    """Make this worker's row; CannotWork when the database went away meanwhile."""
    try:
        return Worker.objects.using(database.alias()).create(
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=list(options.queues),
            capabilities=able,
            slots=options.slots,
            version=__version__,
            status=WorkerStatus.RUNNING,
        )
    except (OperationalError, InterfaceError) as error:
        told = f"The database was lost while the worker started: {error}"
        raise CannotWork(told) from error


def retire(worker: UUID) -> None:
    """Say that this worker has stopped in good order."""
    Worker.objects.using(database.alias()).filter(pk=worker).update(
        status=WorkerStatus.STOPPED,
        stopped_at=ClockTimestamp(),
        heartbeat_at=ClockTimestamp(),
        busy=0,
    )


@dataclass(slots=True)
class Beat:
    """What a worker tells of itself; the main loop writes, the listener sends it."""

    busy: int = 0
    draining: bool = False

    @property
    def status(self) -> str:
        """Return the status to show."""
        return WorkerStatus.DRAINING if self.draining else WorkerStatus.RUNNING
