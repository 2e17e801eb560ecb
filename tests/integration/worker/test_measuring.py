"""Does a guardian end what takes too much, without any help of the kernel?

No control group is named here, so that every machine, and every user, takes this way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import pytest

from buildqueue.queue.limits import Limits
from buildqueue.worker import gauge
from buildqueue.worker.cgroups import Group
from buildqueue.worker.gauge import Gauge
from tests.support.waiting import wait_until

from .conftest import Start

MIB = 1024 * 1024
HOLD = "import signal; held = b'x' * ({} * 1024 * 1024); signal.pause()"


def watched(**limits: Any) -> dict[str, Any]:
    return {"limits": asdict(Limits(**limits)), "group": asdict(Group())}


def program(text: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-E", "-c", text])


def when_told(work: Any) -> Any:
    """Return a slot that begins when the guardian has taken its idle measure."""

    def slot() -> None:
        signal.sigwait({signal.SIGUSR2})
        work()
        signal.pause()

    return slot


def spin() -> None:
    while True:
        pass


def have_a_child_that_spins() -> None:
    program("while True: pass")


def hold_in_three_children() -> None:
    for _ in range(3):
        program(HOLD.format(60))


def start_eight_children() -> None:
    for _ in range(8):
        program(HOLD.format(0))


TOO_MUCH: dict[str, tuple[Any, dict[str, Any], str]] = {
    "cpu": (spin, {"cpu_seconds": 0.3}, "cpu_limit"),
    "cpu of a child": (have_a_child_that_spins, {"cpu_seconds": 0.3}, "cpu_limit"),
    "memory": (hold_in_three_children, {"memory_bytes": 120 * MIB}, "out_of_memory"),
    "processes": (start_eight_children, {"processes": 4}, "process_limit"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_tree_that_takes_too_much_is_killed_and_the_report_says_why(
    start: Start, name: str
) -> None:
    work, limits, code = TOO_MUCH[name]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        seen = start(when_told(work))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
    seen.watch.send(watched=watched(**limits))
    os.kill(seen.slot, signal.SIGUSR2)
    report = seen.report()
    assert report["crossed"] == code
    assert os.WTERMSIG(report["ended"]) == signal.SIGKILL
    assert report["peak_memory_bytes"] > 0
    assert not seen.tree()
    if "memory_bytes" in limits:
        assert report["peak_memory_bytes"] > 120 * MIB
    if "cpu_seconds" in limits:
        assert report["cpu_seconds"] > 0.3


def test_a_killed_slot_that_has_kept_its_limits_crossed_none(start: Start) -> None:
    seen = start(signal.pause)
    limits = watched(cpu_seconds=60, memory_bytes=500 * MIB, processes=50)
    seen.watch.send(watched=limits)
    os.kill(seen.slot, signal.SIGKILL)
    report = seen.report()
    assert report["crossed"] is None
    assert os.WTERMSIG(report["ended"]) == signal.SIGKILL


def test_the_soft_signal_reaches_the_slot_and_nothing_below_it(start: Start) -> None:
    def slot() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(5 + bool(child.poll())))
        child = program("import signal; signal.pause()")
        while True:
            signal.pause()

    seen = start(slot)
    wait_until(lambda: len(seen.tree()) == 2, message=seen.tree)
    wait_until(lambda: b"\0-c\0" in _cmdline(seen.tree()[-1].pid))
    seen.watch.send(soft=True)
    assert os.WEXITSTATUS(seen.report()["ended"]) == 5


def test_an_earlier_end_goes_before_a_later_one(start: Start) -> None:
    def slot() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(ready[1], b".")
        while True:
            signal.pause()

    ready = os.pipe()
    seen = start(slot)
    assert os.read(ready[0], 1) == b"."
    for grace in (600, 0.1, 600):
        seen.watch.send(end=grace)
    assert os.WTERMSIG(seen.report()["ended"]) == signal.SIGKILL
    for end in ready:
        os.close(end)


def test_a_tree_is_seen_with_its_parents_first_and_its_time() -> None:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        subprocess.run(
            [sys.executable, "-S", "-c", "n = 0\nfor _ in range(10**6): n += 1"],
            check=False,
        )
        program("import signal; signal.pause()")
        signal.pause()
        os._exit(0)
    try:
        wait_until(lambda: len(list(gauge.tree(pid))) == 2)
        wait_until(lambda: _sum_of_cpu(pid) > 0)
        first, second = gauge.tree(pid)
        assert (first.pid, second.pid != pid) == (pid, True)
        assert (first.threads, second.threads) == (1, 1)
        assert gauge.proportional_bytes(second) > 0
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _sum_of_cpu(pid: int) -> float:
    return sum(each.cpu_seconds for each in gauge.tree(pid))


def _cmdline(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def test_what_the_slot_had_before_the_run_is_not_the_runs() -> None:
    held = b"x" * (80 * MIB)
    measure = Gauge(os.getpid(), Limits(memory_bytes=40 * MIB), Group())
    assert measure.crossed() is None
    more = b"y" * (80 * MIB)
    assert measure.crossed() == "out_of_memory"
    assert len(held) == len(more)


def test_a_process_that_is_gone_has_taken_nothing() -> None:
    process = program("")
    process.wait()
    limits = Limits(memory_bytes=8 * MIB, cpu_seconds=1, processes=1)
    assert Gauge(process.pid, limits, Group()).crossed() is None
