"""How is a command run to its end, or to the end of its time, leaving nothing behind?

The command leads a process group of its own. Whatever ends the call (its exit, the
deadline, a cancel, an exception of the callback), the whole group is ended before the
call returns: TERM, a grace period, KILL. If this process dies instead, the group lives
on until the worker's guardian ends it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

from buildqueue.backends.base import LineCallback
from buildqueue.backends.launching import LaunchPlan
from buildqueue.exceptions import Cancelled, Unavailable

MAX_LINE_BYTES = 16 * 1024
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
GRACE_SECONDS = 5.0
# How long a cancel may go unnoticed, and an exit whose pipe somebody holds open.
_TICK = 0.1
_DRAIN_BYTES = 1024 * 1024
_LONGEST_CHAR = 4  # bytes of a character in UTF-8


def never() -> bool:
    """Nobody asks the command to stop."""
    return False


def run_command(
    plan: LaunchPlan,
    on_line: LineCallback,
    *,
    timeout_seconds: float,
    cancelled: Callable[[], bool] = never,
    grace_seconds: float = GRACE_SECONDS,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> int:
    """Run the command and return its exit code, negative for a signal.

    Its output, errors included, goes to `on_line` line by line; a longer line comes in
    pieces, and what is beyond `max_output_bytes` is read and dropped. Raises
    Unavailable (`command_timed_out`, `command_not_started`) or Cancelled.
    """
    output = _Lines(on_line, max_output_bytes)
    code = stream_command(
        plan,
        output.feed,
        timeout_seconds=timeout_seconds,
        cancelled=cancelled,
        grace_seconds=grace_seconds,
    )
    output.finish()
    return code


def stream_command(
    plan: LaunchPlan,
    on_chunk: Callable[[bytes], None],
    *,
    timeout_seconds: float,
    cancelled: Callable[[], bool] = never,
    grace_seconds: float = GRACE_SECONDS,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int = subprocess.STDOUT,
) -> int:
    """Do the same with output that is not lines: `on_chunk` gets it as it comes."""
    deadline = time.monotonic() + timeout_seconds
    process = _start(plan, stdin, stderr)
    try:
        for chunk in _chunks(process):
            on_chunk(chunk)
            if cancelled():
                raise Cancelled("cancelled", f"{plan.label} was asked to stop")
            if time.monotonic() > deadline:
                raise Unavailable(
                    "command_timed_out",
                    f"{plan.label} did not end within {timeout_seconds:g} seconds",
                )
    finally:
        returncode = _end(process, grace_seconds)
    return plan.exit_code(returncode)


def _start(
    plan: LaunchPlan, stdin: int | IO[bytes], stderr: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            plan.argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            **plan.popen_kwargs(),
        )
    except OSError as error:
        raise Unavailable(
            "command_not_started",
            f"{plan.label} could not be started: {error.strerror}",
        ) from error


def _chunks(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield what the process writes, or nothing once a tick, until it has ended."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    os.set_blocking(fd, False)
    drained = 0
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while True:
            # Asked before reading: what it wrote before its end is in the pipe by then.
            ended = _has_ended(process.pid)
            ready = selector.select(0 if ended else _TICK)
            chunk = os.read(fd, 65536) if ready else b""
            drained += len(chunk) if ended else 0
            # Somebody who left the group could write for ever; a pipe holds less.
            if ended and (not chunk or drained > _DRAIN_BYTES):
                return
            if ready and not chunk:
                # It closed its output and goes on: an end of file is always "ready".
                selector.unregister(fd)
            yield chunk


def _has_ended(pid: int) -> bool:
    """Tell without reaping: until then its number cannot become somebody else's."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return found is not None


def _end(process: subprocess.Popen[bytes], grace_seconds: float) -> int:
    """End what is left of the group and return the leader's code."""
    if not _has_ended(process.pid):
        _signal_group(process.pid, signal.SIGTERM)
        give_up = time.monotonic() + grace_seconds
        while not _has_ended(process.pid) and time.monotonic() < give_up:
            time.sleep(_TICK / 5)
    _signal_group(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    return process.wait()


def _signal_group(leader: int, number: int) -> None:
    # PermissionError: nothing is left in the group but a zombie that is not ours.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


class _Lines:
    """Cuts a stream of bytes into lines of bounded length and number."""

    def __init__(self, on_line: LineCallback, max_bytes: int) -> None:
        self._on_line, self._room = on_line, max_bytes
        self._max_bytes, self._rest = max_bytes, b""

    def feed(self, chunk: bytes) -> None:
        if self._room < 0:
            return
        kept = chunk[: self._room]
        self._room -= len(chunk)
        *lines, rest = (self._rest + kept).split(b"\n")
        for line in lines:
            self._emit(line)
        *pieces, self._rest = _pieces(rest)
        for piece in pieces:
            self._tell(piece)
        if self._room < 0:
            self.finish()
            self._on_line(f"[output beyond {self._max_bytes} bytes is dropped]")

    def finish(self) -> None:
        rest, self._rest = self._rest, b""
        if rest:
            self._emit(rest)

    def _emit(self, line: bytes) -> None:
        for piece in _pieces(line.removesuffix(b"\r")):
            self._tell(piece)

    def _tell(self, piece: bytes) -> None:
        self._on_line(piece.decode("utf-8", errors="replace"))


def is_piece(line: str) -> bool:
    """Tell whether a line is so long that the next one may be the rest of it."""
    return len(line.encode("utf-8", "surrogatepass")) > MAX_LINE_BYTES - _LONGEST_CHAR


def _pieces(line: bytes) -> Iterator[bytes]:
    """Yield a line in pieces that end between characters, the last one whatever it is."""
    while len(line) > MAX_LINE_BYTES:
        cut = MAX_LINE_BYTES
        while line[cut] & 0xC0 == 0x80 and cut > MAX_LINE_BYTES - _LONGEST_CHAR + 1:
            cut -= 1
        yield line[:cut]
        line = line[cut:]
    yield line
