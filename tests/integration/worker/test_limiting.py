"""Is a soft limit raised in the handler only, and is no limit left behind?"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from buildqueue.exceptions import SoftTimeLimit
from buildqueue.queue.limits import UNLIMITED, Limits
from buildqueue.worker import limiting
from buildqueue.worker.limiting import SOFT, SoftClock

MIB = 1024 * 1024
TINY = 1e-9


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    handled = signal.getsignal(SOFT)
    yield
    limiting.begin(UNLIMITED, uuid4())
    signal.signal(SOFT, handled)


def test_the_soft_limit_is_raised_in_the_block_once() -> None:
    clock = SoftClock()
    clock.begin(TINY)
    with pytest.raises(SoftTimeLimit) as told, clock.running():
        signal.raise_signal(SOFT)
    assert told.value.seconds == TINY
    with clock.running():
        try:
            signal.raise_signal(SOFT)
        except SoftTimeLimit:
            signal.raise_signal(SOFT)  # the handler heeds it: it is not raised again


@pytest.mark.parametrize("seconds", [None, 600.0])
def test_a_signal_that_is_for_an_earlier_run_does_nothing(
    seconds: float | None,
) -> None:
    clock = SoftClock()
    clock.begin(TINY)
    clock.begin(seconds)
    with clock.running():
        signal.raise_signal(SOFT)


def test_a_signal_before_or_after_the_block_does_nothing() -> None:
    clock = SoftClock()
    clock.begin(TINY)
    signal.raise_signal(SOFT)
    with clock.running():
        pass
    signal.raise_signal(SOFT)


def test_a_late_signal_does_nothing_though_the_handler_has_used_it() -> None:
    clock = SoftClock()
    clock.begin(TINY)
    with clock.running():
        signal.signal(SOFT, signal.SIG_DFL)
    signal.raise_signal(SOFT)


def test_a_program_that_the_handler_starts_dies_of_the_signal_as_usual() -> None:
    SoftClock().begin(TINY)
    program = "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)"
    ended = subprocess.run([sys.executable, "-S", "-c", program], check=False)
    assert ended.returncode == -signal.SIGUSR1


def test_a_file_that_grows_too_large_is_an_error_within_the_call_only(
    tmp_path: Path,
) -> None:
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    bounds = limiting.begin(Limits(file_bytes=MIB), uuid4())
    with pytest.raises(OSError, match="File too large"), limiting.handler_runs():
        (tmp_path / "big").write_bytes(b"x" * (2 * MIB))
    (tmp_path / "bigger").write_bytes(b"x" * (3 * MIB))
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == usual
    assert not bounds.lasting


def test_without_a_group_the_address_space_is_bounded_within_the_call_only() -> None:
    usual = resource.getrlimit(resource.RLIMIT_AS)
    limiting.current = limiting.Enclosure(Limits(memory_bytes=256 * MIB))
    with pytest.raises(MemoryError), limiting.handler_runs():
        bytearray(512 * MIB)
    assert len(bytearray(512 * MIB)) == 512 * MIB
    assert resource.getrlimit(resource.RLIMIT_AS) == usual


def test_a_handler_that_gives_up_rights_makes_its_process_leave() -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            bounds = limiting.begin(Limits(file_bytes=MIB), uuid4())
            with limiting.handler_runs():
                resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
            code = 0 if bounds.lasting else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_time_and_file_size_leave_the_process_fit_for_the_next_job() -> None:
    limits = Limits(time_seconds=2, soft_time_seconds=1, file_bytes=1)
    bounds = limiting.begin(limits, uuid4())
    assert bounds.told() == {"watched": None, "hindrance": ""}
    assert not bounds.lasting


@pytest.mark.parametrize("name", ["memory_bytes", "cpu_seconds", "processes"])
def test_what_is_measured_is_told_and_the_process_takes_no_other_job(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiting, "_places", dict)
    bounds = limiting.begin(Limits(**{name: 10**9}), uuid4())
    told = bounds.told()
    assert told["watched"]["limits"][name] == 10**9
    assert told["watched"]["group"] == {"folders": {}, "unified": ()}
    assert "no such control group" in told["hindrance"]
    assert bounds.lasting
