"""How does a host project test its own jobs? With the real engine, in its own test.

    draining    runs what is due, through the real claiming, runner and transitions
    asserting   what was enqueued, and what was not
    handling    one handler, called once, on a job of its own
    clocks      the database's clock, standing still or moved, for one connection
    emulation   what a worker's connection does and one inside a test's transaction not

Needs no pytest and starts no process: in `django.test.TestCase` all of it happens inside
the test's transaction and is rolled back with it; in `TransactionTestCase`, and under
`pytest.mark.django_db(transaction=True)`, it commits.
"""

from __future__ import annotations

from .asserting import assert_enqueued, assert_not_enqueued, enqueued
from .clocks import Clock, frozen_clock, make_due
from .draining import JobFailed, StillBusy, drain
from .handling import Handled, Note, run_handler

__all__ = [
    "Clock",
    "Handled",
    "JobFailed",
    "Note",
    "StillBusy",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "enqueued",
    "frozen_clock",
    "make_due",
    "run_handler",
]
