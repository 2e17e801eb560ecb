"""How does a job's output reach the database and whoever watches?

The slot writes into pipes; a reader thread empties them at once, so that a slow
database never blocks a job; a writer thread stores chunks a few times a second and keeps
them while the database is away. A run keeps its head up to the limit and a short tail;
what lies between is counted. Output is the run's whose "go" came last; the end of a run
is drained before the next begins.
"""

from __future__ import annotations

import codecs
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
from .outages import Outages

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 0.2
PARTIAL_SECONDS = 1.0  # after it a line without an end is shown as it is
TAIL_BYTES = 64 * 1024

Subscriber = Callable[[LogChunk], None]


@dataclass(slots=True)
class _Run:
    """The log of one run while it grows."""

    job: UUID
    lease: UUID
    attempt: int
    seq: int = 0
    kept: int = 0
    dropped: int = 0
    tail: deque[tuple[str, str]] = field(default_factory=deque)
    tail_bytes: int = 0


@dataclass(slots=True)
class _Pipe:
    """One stream of one slot."""

    slot: UUID
    stream: str
    own: bool  # the worker's own words: passed on as they are
    decoder: codecs.IncrementalDecoder
    text: str = ""  # what was read and is not cut into a chunk yet
    since: float = 0.0  # when its first character came


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
        decoder = codecs.getincrementaldecoder("utf-8")
        with self._lock:
            for fd, stream in ((out, "stdout"), (err, "stderr")):
                os.set_blocking(fd, False)
                self._pipes[fd] = _Pipe(slot, stream, own, decoder("replace"))
                self._selector.register(fd, selectors.EVENT_READ)

    def begin(self, slot: UUID, job: UUID, lease: UUID, attempt: int) -> None:
        """What the slot prints from now on belongs to this run."""
        with self._lock:
            self._drain(slot)
            self._runs[slot] = _Run(job, lease, attempt)

    def say(self, slot: UUID, text: str) -> None:
        """Add a line of the worker's own to the run's log."""
        with self._lock:
            if run := self._runs.get(slot):
                self._drain(slot)
                self._store(run, LogChunk.Stream.SYSTEM, text + "\n")

    def end(self, slot: UUID) -> None:
        """The run has ended: take all it printed, then forget it."""
        with self._lock:
            self._drain(slot)
            if run := self._runs.pop(slot, None):
                self._finish(run)

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
            ready = self._selector.select(timeout=FLUSH_SECONDS)
            with self._lock:
                for key, _ in ready:
                    if key.fd in self._pipes:
                        self._read_once(key.fd)
                self._cut_old()

    def _drain(self, slot: UUID) -> None:
        """Take what is in the slot's pipes now, and no more: another may write on."""
        for fd, pipe in self._pipes_of(slot):
            left = _readable_bytes(fd)
            while left > 0 and (read := self._read_once(fd)):
                left -= read
            self._cut(pipe, everything=True)

    def _pipes_of(self, slot: UUID) -> list[tuple[int, _Pipe]]:
        return [(fd, pipe) for fd, pipe in self._pipes.items() if pipe.slot == slot]

    def _read_once(self, fd: int) -> int:
        """Read what is there and return how many bytes; 0 when there are none."""
        pipe = self._pipes.get(fd)
        if pipe is None:
            return 0
        try:
            piece = os.read(fd, MAX_CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not piece:
            self._cut(pipe, everything=True)
            self._close(fd)
            return 0
        for _, other in self._pipes_of(pipe.slot):
            if other is not pipe:
                self._cut(other)  # it came before: keep the order of the two streams
        if not pipe.text:
            pipe.since = time.monotonic()
        pipe.text += pipe.decoder.decode(piece)
        if len(pipe.text) >= MAX_CHUNK_BYTES // 4:
            self._cut(pipe)
        return len(piece)

    def _close(self, fd: int) -> None:
        self._selector.unregister(fd)
        del self._pipes[fd]
        os.close(fd)

    def _cut_old(self) -> None:
        now = time.monotonic()
        for pipe in list(self._pipes.values()):
            age = now - pipe.since
            if pipe.text and age >= FLUSH_SECONDS:
                self._cut(pipe, everything=age >= PARTIAL_SECONDS)

    def _cut(self, pipe: _Pipe, *, everything: bool = False) -> None:
        """Make chunks of the whole lines read so far, or of everything."""
        end = len(pipe.text) if everything else pipe.text.rfind("\n") + 1
        if end == 0 and len(pipe.text) >= MAX_CHUNK_BYTES // 4:
            end = len(pipe.text)
        if end == 0:
            return
        text, pipe.text = pipe.text[:end], pipe.text[end:]
        pipe.since = time.monotonic()
        run = self._runs.get(pipe.slot)
        while text:
            piece, text = text[: MAX_CHUNK_BYTES // 4], text[MAX_CHUNK_BYTES // 4 :]
            if pipe.own:
                sys.stderr.write(piece)  # it has its time and level already
            elif run is not None:
                self._store(run, pipe.stream, piece)
            elif piece.strip():
                logger.warning("slot %s: %s", pipe.slot, piece.rstrip())

    def _store(self, run: _Run, stream: str, text: str) -> None:
        size = len(text.encode("utf-8", "replace"))
        # Once something is in the tail all that follows is: a small piece that still
        # fitted into the head would come before it.
        if not run.tail and run.kept + size <= conf.get().log_max_bytes_per_run:
            run.kept += size
            self._enqueue(run, stream, text)
            return
        run.tail.append((stream, text))
        run.tail_bytes += size
        while run.tail_bytes > TAIL_BYTES and len(run.tail) > 1:
            _, oldest = run.tail.popleft()
            gone = len(oldest.encode("utf-8", "replace"))
            run.tail_bytes -= gone
            run.dropped += gone

    def _finish(self, run: _Run) -> None:
        if run.dropped:
            told = f"… {run.dropped} bytes of output were not kept …\n"
            self._enqueue(run, LogChunk.Stream.SYSTEM, told)
        for stream, text in run.tail:
            self._enqueue(run, stream, text)

    def _enqueue(self, run: _Run, stream: str, text: str) -> None:
        run.seq += 1
        chunk = LogChunk(
            job_id=run.job,
            run_id=run.lease,
            attempt=run.attempt,
            seq=run.seq,
            stream=stream,
            text=logs.storable(text),
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
            time.sleep(FLUSH_SECONDS / 4)  # let a few more chunks come along
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


def _readable_bytes(fd: int) -> int:
    """Return how many bytes are in a pipe."""
    answer = fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])
