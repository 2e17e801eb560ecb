"""Does a guardian end the whole tree, when told and when nobody can tell it?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil

from buildqueue.worker import linux
from tests.support.waiting import wait_until

from .conftest import Start


def sleep() -> None:
    signal.pause()


def sleep_with_a_stubborn_grandchild() -> None:
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);signal.pause()"
    )
    subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    signal.pause()


def test_the_end_of_the_slot_is_told_with_its_signal(start: Start) -> None:
    watched = start(sleep)
    os.kill(watched.slot, signal.SIGUSR1)
    report = watched.report()
    assert os.WTERMSIG(report["ended"]) == signal.SIGUSR1
    assert report["peak_memory_bytes"] > 0
    assert not report["overran"]


def test_a_grandchild_that_ignores_term_is_killed_after_the_grace(
    start: Start,
) -> None:
    watched = start(sleep_with_a_stubborn_grandchild)
    wait_until(lambda: len(watched.tree()) == 2, message=watched.tree)
    left = watched.tree()
    watched.watch.send(end=0.2)
    assert os.WIFSIGNALED(watched.report()["ended"])
    assert not any(process.is_running() for process in left)


def test_the_tree_ends_with_the_supervisor(start: Start) -> None:
    watched = start(sleep_with_a_stubborn_grandchild)
    wait_until(lambda: len(watched.tree()) == 2, message=watched.tree)
    left = watched.tree()
    watched.watch.close()
    wait_until(lambda: not any(p.is_running() for p in left), message=left)


def test_a_lease_that_nobody_renews_ends_the_slot(start: Start) -> None:
    watched = start(sleep)
    watched.watch.send(until=linux.boottime() + 0.2)
    report = watched.report()
    assert report["overran"]
    assert os.WTERMSIG(report["ended"]) == signal.SIGKILL


def test_a_renewed_lease_and_none_let_the_slot_live(start: Start) -> None:
    watched = start(sleep)
    begun = linux.boottime()
    watched.watch.send(until=begun + 0.2)
    watched.watch.send(until=None)
    wait_until(lambda: linux.boottime() > begun + 0.5, message="time stands still")
    assert psutil.pid_exists(watched.slot)
    watched.watch.send(end=0)
    assert not watched.report()["overran"]
