"""How does a job's output reach the database and whoever watches?

The slot writes into pipes; a reader thread empties them at once, so that a slow
database never blocks a job; a writer thread stores chunks a few times a second and keeps
them while the database is away. A chunk is of one step. A run keeps its head up to the
limit and a short tail; what lies between is counted. Output is the run's whose "go" came
last; the end of a run is drained before the next begins.
"""

from __future__ import annotations

import fcntl
import logging
import os
import selectors
import struct
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connections

from .. import conf
from ..models import LogChunk
from ..models.logs import MAX_CHUNK_BYTES
from ..queue import database, logs
from . import locks
from .logcutting import Cutter, Piece
from .logkeeping import Keeping
from .outages import Outages

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.05  # what comes within it goes together
FLUSH_SECONDS = 0.15  # between two pieces of a stream that goes on and on
QUIET_SECONDS = 1.0  # for so long nothing is looked for while nothing waits
PARTIAL_SECONDS = 1.0  # after it a line without an end is shown as it is

Subscriber = Callable[[LogChunk], None]


@dataclass(slots=True)
class _Run:
    """The log of one run while it grows."""

    job: UUID
    lease: UUID
    attempt: int
    seq: int = 0
    step: str | None = None  # the latest that was seen
    keeping: Keeping = field(default_factory=Keeping)


@dataclass(slots=True)
class _Pipe:
    """One stream of one slot."""

    slot: UUID
    stream: str
    own: bool  # the worker's own words: passed on as they are
    cutter: Cutter = field(default_factory=Cutter)
    since: float = 0.0  # when the first character came that is not passed on yet
    passed: float = 0.0  # when something was passed on last


class LogPump:
    """Reads the output of slots and stores it as their runs', once `threads` run."""

    def __init__(self, outages: Outages | None = None) -> None:
        self._outages = outages or Outages()
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._pipes: dict[int, _Pipe] = {}
        self._runs: dict[UUID, _Run] = {}  # by slot
        self._waiting: deque[LogChunk] = deque()
        self._subscribers: list[Subscriber] = []
        self._something = threading.Event()
        self._stopping = False
        self.threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in (("logreader", self._read), ("logwriter", self._write))
        ]

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hand every chunk to the subscriber, too, as it is cut."""
        self._subscribers.append(subscriber)

    def attach(self, slot: UUID, out: int, err: int, *, own: bool = False) -> None:
        """Take over the read ends of a slot's pipes; `own` ones belong to no run."""
        with self._lock:
            for fd, stream in ((out, "stdout"), (err, "stderr")):
                os.set_blocking(fd, False)
                self._pipes[fd] = _Pipe(slot, stream, own)
                self._selector.register(fd, selectors.EVENT_READ)

    def begin(self, slot: UUID, job: UUID, lease: UUID, attempt: int) -> None:
        """What the slot prints from now on belongs to this run."""
        with self._lock:
            self._drain(slot)
            self._runs[slot] = _Run(job, lease, attempt)
            self._cut_for(slot, lease)

    def say(self, slot: UUID, text: str) -> None:
        """Add a line of the worker's own to the run's log."""
        with self._lock:
            if run := self._runs.get(slot):
                self._drain(slot)
                told = Piece(text + "\n", run.step)
                self._store(run, LogChunk.Stream.SYSTEM, told)

    def end(self, slot: UUID) -> None:
        """The run has ended: take all it printed, then forget it."""
        with self._lock:
            self._drain(slot)
            if run := self._runs.pop(slot, None):
                for stream, piece in run.keeping.rest():
                    self._enqueue(run, stream, piece)
            self._cut_for(slot, None)

    def detach(self, slot: UUID) -> None:
        """The slot is gone: take the rest and close its pipes."""
        with self._lock:
            self.end(slot)
            for fd in [fd for fd, pipe in self._pipes.items() if pipe.slot == slot]:
                self._close(fd)

    def stop(self, seconds: float = 10.0) -> None:
        """Store what is left, for so long at most, and end."""
        deadline = time.monotonic() + seconds
        while self._waiting and time.monotonic() < deadline:
            self._something.set()
            time.sleep(0.01)
        self._stopping = True
        self._something.set()
        self.threads[1].join(timeout=1.0)

    def _read(self) -> None:
        while not self._stopping:
            with self._lock:
                pause = self._pause()
            ready = self._selector.select(timeout=pause)
            with self._lock:
                for key, _ in ready:
                    if key.fd in self._pipes:
                        self._read_once(key.fd)
                self._cut_due()

    def _pause(self) -> float:
        """Return for how long nothing is due but what comes."""
        now = time.monotonic()
        due = (_due(pipe) - now for pipe in self._pipes.values() if pipe.cutter.text)
        return max(0.0, min(due, default=QUIET_SECONDS))

    def _drain(self, slot: UUID) -> None:
        """Take what is in the slot's pipes now, and no more: another may write on."""
        for fd, pipe in self._pipes_of(slot):
            left = _readable_bytes(fd)
            while left > 0 and (read := self._read_once(fd)):
                left -= read
            self._pass_on(pipe, pipe.cutter.everything())

    def _pipes_of(self, slot: UUID) -> list[tuple[int, _Pipe]]:
        return [(fd, pipe) for fd, pipe in self._pipes.items() if pipe.slot == slot]

    def _cut_for(self, slot: UUID, lease: UUID | None) -> None:
        for _, pipe in self._pipes_of(slot):
            pipe.cutter.begin(lease)

    def _read_once(self, fd: int) -> int:
        """Read what is there and return how many bytes; 0 when there are none."""
        pipe = self._pipes.get(fd)
        if pipe is None:
            return 0
        try:
            read = os.read(fd, MAX_CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not read:
            self._pass_on(pipe, pipe.cutter.everything())
            self._close(fd)
            return 0
        for _, other in self._pipes_of(pipe.slot):
            if other is not pipe:  # it came before: keep the order of the two streams
                self._pass_on(other, other.cutter.lines())
        if not pipe.cutter.text:
            pipe.since = time.monotonic()
        self._pass_on(pipe, pipe.cutter.feed(read))
        if run := self._runs.get(pipe.slot):
            run.step = pipe.cutter.step
        return len(read)

    def _close(self, fd: int) -> None:
        self._selector.unregister(fd)
        del self._pipes[fd]
        os.close(fd)

    def _cut_due(self) -> None:
        """Pass on what has waited for more: soon, and sooner after a pause."""
        now = time.monotonic()
        for pipe in [pipe for pipe in self._pipes.values() if pipe.cutter.text]:
            if now >= _due(pipe):
                self._pass_on(pipe, pipe.cutter.lines() or pipe.cutter.everything())

    def _pass_on(self, pipe: _Pipe, pieces: list[Piece]) -> None:
        if not pieces:
            return
        pipe.since = pipe.passed = time.monotonic()
        run = self._runs.get(pipe.slot)
        for piece in pieces:
            if pipe.own:
                sys.stderr.write(piece.text)  # it has its time and level already
            elif run is not None:
                self._store(run, pipe.stream, piece)
            elif piece.text.strip():
                logger.warning("slot %s: %s", pipe.slot, piece.text.rstrip())

    def _store(self, run: _Run, stream: str, piece: Piece) -> None:
        if run.keeping.take(stream, piece, conf.get().log_max_bytes_per_run):
            self._enqueue(run, stream, piece)

    def _enqueue(self, run: _Run, stream: str, piece: Piece) -> None:
        run.seq += 1
        chunk = LogChunk(
            job_id=run.job,
            run_id=run.lease,
            attempt=run.attempt,
            seq=run.seq,
            stream=stream,
            step=piece.step,
            text=logs.storable(piece.text),
        )
        self._waiting.append(chunk)
        self._something.set()
        for subscriber in self._subscribers:
            subscriber(chunk)

    def _write(self) -> None:
        locks.steady_here()
        while not self._stopping:
            self._something.wait()
            self._something.clear()
            time.sleep(GATHER_SECONDS)  # let a few more chunks come along
            try:
                locks.drop_severed()
                self._write_waiting()
                self._outages.well("log")
            except (DatabaseError, InterfaceError) as error:
                connections[database.alias()].close()
                time.sleep(self._outages.failed("log", error))
                self._something.set()
        connections[database.alias()].close()

    def _write_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting[i] for i in range(min(len(self._waiting), 200))]
            logs.write(batch)
            for _ in batch:
                self._waiting.popleft()


def _due(pipe: _Pipe) -> float:
    """Return when the text that waits is passed on, whatever comes."""
    if "\n" in pipe.cutter.text:
        return max(pipe.since + GATHER_SECONDS, pipe.passed + FLUSH_SECONDS)
    return pipe.since + PARTIAL_SECONDS


def _readable_bytes(fd: int) -> int:
    """Return how many bytes are in a pipe."""
    answer = fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])
