"""When are notices sent? By a thread of the duties' process, as soon as any is due.

A receiver may take its time: no rescue waits for it. The look for new notices is part of
the rescue tick, which tells this thread; in between it sleeps until the next try of what
could not be sent, and asks nothing while nothing waits. Every worker has one: notices are
taken one by one, so that many workers send side by side and each notice once.
"""

from __future__ import annotations

import logging
import threading

from django.db import InterfaceError, OperationalError

from ..queue import database, outbox
from . import locks
from .outages import Outages

logger = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.2
PAUSE_AFTER_FAULT = 5.0


class Postman:
    """The thread that sends, and the word that there is something to send."""

    def __init__(self, outages: Outages) -> None:
        self._outages = outages
        self._told = threading.Event()

    def start(self) -> None:
        """Begin to wait for work."""
        threading.Thread(target=self._serve, name="postman", daemon=True).start()

    def tell(self) -> None:
        """Say that a notice is due."""
        self._told.set()

    def _serve(self) -> None:
        locks.steady_here()
        pause: float | None = None
        while True:
            self._told.wait(pause)
            self._told.clear()
            pause = self._round()

    def _round(self) -> float | None:
        """Send what is due; return when to look again, None when nothing waits."""
        try:
            locks.drop_severed()
            outbox.send_due()
            wait = outbox.seconds_to_next()
            self._outages.well("notices")
        except (OperationalError, InterfaceError) as error:
            database.connection().close()
            return self._outages.failed("notices", error)
        except Exception:  # told, and tried again: no other thread here sends
            logger.exception("notices are sent later")
            database.connection().close()
            return PAUSE_AFTER_FAULT
        if wait is None:
            database.connection().close()
            return None
        return max(wait, SHORTEST_PAUSE)
