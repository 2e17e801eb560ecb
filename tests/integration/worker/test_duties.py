"""Row M39: do duties run one at a time, and does a failing one stop no other?"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import OperationalError

from buildqueue.worker import duties
from buildqueue.worker.duties import _Tick
from buildqueue.worker.outages import Outages
from tests.support.processes import ROOT, environment

# Many turns of a locked duty, which says when it begins and ends, in one write each.
LEADER = """
import os, sys, django
django.setup()
from buildqueue.worker import duties
from buildqueue.worker.outages import Outages

book = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)

def duty():
    os.write(book, f"in {os.getpid()}\\n".encode())
    os.sched_yield()
    os.write(book, f"out {os.getpid()}\\n".encode())

print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    duties._guarded(duties._Tick(0.0, duty, lock=77), Outages())
"""


@pytest.mark.slow
def test_a_locked_duty_has_one_leader_among_several_processes(
    committed: None, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    book.touch()
    command = [sys.executable, "-c", LEADER, str(book), "40"]
    options = {"cwd": ROOT, "env": environment(), "text": True}
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **options,  # type: ignore[call-overload]
        )
        for _ in range(3)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.close()
        assert [process.wait(120) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()

    lines = book.read_text().splitlines()
    assert len(lines) >= 2
    for begun, ended in zip(lines[::2], lines[1::2], strict=True):
        assert begun.startswith("in ")
        assert ended == begun.replace("in ", "out ")


@pytest.mark.parametrize(
    ("fault", "said"),
    [(ValueError("x"), "duty failed"), (OperationalError("x"), "")],
)
@pytest.mark.parametrize("lock", [None, 78])
def test_a_failing_duty_stops_no_other(
    committed: None,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    said: str,
    lock: int | None,
) -> None:
    done: list[str] = []

    def failing() -> None:
        done.append("failing")
        raise fault

    ticks = [
        _Tick(0.0, lambda: done.append("before"), lock=lock),
        _Tick(0.0, failing, lock=lock),
        _Tick(0.0, lambda: done.append("after"), lock=lock),
    ]

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            duties._do_due(ticks, Outages(lambda trouble: None))

    assert done == ["before", "failing", "after"] * 2
    assert said in caplog.text


def test_a_duty_that_is_not_due_waits(committed: None) -> None:
    done: list[str] = []
    ticks = [_Tick(3600.0, lambda: done.append("once"))]

    for _ in range(3):
        duties._do_due(ticks, Outages())

    assert done == ["once"]
