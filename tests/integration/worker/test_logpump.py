"""Does the pump give each run its own output, whatever writes into the pipes?"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
import uuid
from collections.abc import Iterator

import pytest

from buildqueue.models import LogChunk
from buildqueue.worker.logpump import LogPump
from tests.support.jobs import text
from tests.support.waiting import wait_until


class Slot:
    """The write ends of a slot's pipes, and the runs it has."""

    def __init__(self, pump: LogPump) -> None:
        self.pump, self.slot = pump, uuid.uuid4()
        out, self.out = os.pipe()
        err, self.err = os.pipe()
        pump.attach(self.slot, out, err)

    def begin(self) -> uuid.UUID:
        job = uuid.uuid4()
        self.pump.begin(self.slot, job, uuid.uuid4(), 1)
        return job

    def end(self) -> None:
        self.pump.end(self.slot)


@pytest.fixture
def pump(committed: None) -> Iterator[LogPump]:
    made = LogPump()
    for thread in made.threads:
        thread.start()
    yield made
    made.stop()
    for thread in made.threads:
        thread.join(10)


def test_output_is_the_run_s_between_its_begin_and_its_end(pump: LogPump) -> None:
    slot = Slot(pump)
    os.write(slot.out, b"before\n")
    first = slot.begin()
    os.write(slot.out, b"one\n")
    os.write(slot.err, b"problem\n")
    slot.end()
    second = slot.begin()
    os.write(slot.out, b"two")
    slot.end()
    wait_until(lambda: text(second) == "two", message=lambda: text(second))
    assert text(first, stream="stdout") == "one\n"
    assert text(first, stream="stderr") == "problem\n"


def test_a_flood_from_a_leftover_does_not_hold_up_the_end_of_a_run(
    pump: LogPump,
) -> None:
    slot = Slot(pump)
    slot.begin()
    flood = subprocess.Popen(["yes"], stdout=slot.out)
    try:
        for _ in range(50):
            slot.end()
            slot.begin()
    finally:
        flood.kill()
        flood.wait()
    slot.end()


def test_the_two_streams_keep_the_order_in_which_they_were_seen(
    pump: LogPump,
) -> None:
    slot = Slot(pump)
    job = slot.begin()
    for number in range(4):
        end = slot.err if number % 2 else slot.out
        os.write(end, b"%d\n" % number)
        seen = LogChunk.objects.filter(job_id=job, text__contains=str(number))
        wait_until(seen.exists, message=lambda: text(job))
    slot.end()
    assert text(job) == "0\n1\n2\n3\n"


def test_a_character_cut_in_two_is_put_together(pump: LogPump) -> None:
    slot = Slot(pump)
    job = slot.begin()
    encoded = "ü".encode()
    os.write(slot.out, encoded[:1])
    wait_until(lambda: _is_empty(slot.out), message="not read")
    os.write(slot.out, encoded[1:] + b"\n")
    slot.end()
    wait_until(lambda: text(job) == "ü\n", message=lambda: text(job))


def _is_empty(write_end: int) -> bool:

    left = fcntl.ioctl(write_end, termios.FIONREAD, b"\0" * 4)
    return struct.unpack("i", left)[0] == 0
