"""When is the drain over?"""

from __future__ import annotations

import os
import signal

from buildqueue.worker.stopping import Stop


def signalled(stop: Stop, times: int) -> None:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    try:
        with stop.signals_caught(writable):
            for _ in range(times):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(readable)
        os.close(writable)


def test_the_first_signal_begins_a_drain_that_ends_in_time() -> None:
    stop = Stop(10.0)
    assert not stop.look(0.0)
    signalled(stop, 1)
    assert stop.look(1.0)
    assert (stop.begun, stop.over, stop.moments()) == (True, False, [11.0])
    assert not stop.look(2.0)
    stop.look(11.0)
    assert (stop.over, stop.exit_code, stop.moments()) == (True, 0, [])


def test_the_second_signal_ends_the_drain_and_sets_the_exit_code() -> None:
    stop = Stop(None)
    signalled(stop, 1)
    stop.look(1.0)
    assert (stop.over, stop.moments()) == (False, [])
    signalled(stop, 1)
    stop.look(2.0)
    assert (stop.over, stop.exit_code) == (True, 1)


def test_a_worker_with_nothing_left_stops_in_order() -> None:
    stop = Stop(10.0)
    stop.by_itself()
    stop.look(1e9)
    assert (stop.begun, stop.over, stop.exit_code) == (True, False, 0)
