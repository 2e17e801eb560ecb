"""Who looks after one replica while the daemon comes and goes? Its keeper.

A keeper launches one program, is the parent of whatever that leaves behind, writes its
output to a bounded log, and ends the whole tree when the program exits, when it gets
TERM, or when it dies. It outlives a killed daemon, so the agents do as well.

It reads one JSON line on descriptor 0 and answers one there. Nothing was launched if
the line never came. The secrets in that line are the only ones it knows; none of them
gets into the log. How the program ended stands in the exit file before the keeper is
gone; a killed keeper leaves no exit file, and the daemon clears up after it.
"""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildqueue.backends.launching import LaunchPlan
from buildqueue.backends.localruntime.cgroups import (
    Group,
    ended_for_memory,
    remove,
    within,
)
from buildqueue.backends.localruntime.identity import descendants, entry_of, kill_below
from buildqueue.backends.localruntime.logs import BoundedLog

OUTPUT_NAME = "output.log"
EXIT_NAME = "exit.json"
OUT_OF_MEMORY = "out_of_memory"

_PR_SET_CHILD_SUBREAPER = 36
_CHUNK = 65536
_PERIOD_MS = 100


def main() -> int:
    """Launch what the daemon asks for and stay until all of it is gone."""
    os.umask(0o077)
    with socket.socket(fileno=0) as daemon:
        request = _request(daemon)
        if request is None:
            return 0
        try:
            tree = Tree.launch(request)
        except (OSError, ValueError) as error:
            _answer(daemon, {"error": str(error)})
            return 1
        _answer(daemon, {"pid": tree.child, "start_time": tree.start_time})
    # From here on nothing holds the daemon's end: each may end without the other.
    write_exit(Path(request["folder"]), tree.watch())
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a program ended; without a code nobody knows."""

    code: int | None
    reason: str | None = None


@dataclass(slots=True)
class Tree:
    """The launched program, its descendants, and its output."""

    child: int
    start_time: int
    child_fd: int
    output_fd: int
    log: Output
    groups: list[Group]
    wakeup_fd: int
    grace: float
    plan: LaunchPlan

    @classmethod
    def launch(cls, request: Mapping[str, Any]) -> Tree:
        """Start the program. Its output and its orphans come to this process."""
        if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError("cannot become the parent of orphans")
        plan = LaunchPlan(**request["plan"])
        log = Output(
            BoundedLog(Path(request["folder"], OUTPUT_NAME), request["log_bytes"]),
            request["secrets"],
        )
        groups = [Group.of(each) for each in request["groups"]]
        wakeup_fd = _listen_to_signals()
        output_fd, child_end = os.pipe()
        try:
            with within(groups):
                process = subprocess.Popen(
                    plan.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=child_end,
                    stderr=child_end,
                    **plan.popen_kwargs(),
                )
        finally:
            os.close(child_end)
        # Reaped by waitpid(-1) with the orphans, so Popen must not look for it.
        process.returncode = 0
        entry = entry_of(process.pid)
        assert entry is not None  # nothing reaps it before watch()
        os.set_blocking(output_fd, False)
        return cls(
            child=process.pid,
            start_time=entry.start_time,
            child_fd=os.pidfd_open(process.pid),
            output_fd=output_fd,
            log=log,
            groups=groups,
            wakeup_fd=wakeup_fd,
            grace=float(request["grace"]),
            plan=plan,
        )

    def watch(self) -> Exit:
        """Return how the program ended, once nothing of its tree is left."""
        before = ended_for_memory(self.groups)
        poll = select.poll()
        for descriptor in (self.child_fd, self.output_fd, self.wakeup_fd):
            poll.register(descriptor, select.POLLIN)
        code: int | None = None
        kill_at: float | None = None
        while code is None:
            pause = None if kill_at is None else _PERIOD_MS
            ready = {descriptor for descriptor, _ in poll.poll(pause)}
            if self.output_fd in ready and not self._copy():
                poll.unregister(self.output_fd)
            if self.wakeup_fd in ready and self._told_to_end() and kill_at is None:
                self._terminate()
                kill_at = time.monotonic() + self.grace
            if kill_at is not None and time.monotonic() > kill_at:
                kill_below(os.getpid())
            code = self._reap()
        kill_below(os.getpid())
        while self._copy():
            pass
        self.log.close()
        full = kill_at is None and ended_for_memory(self.groups) > before
        remove(self.groups)
        return Exit(code=code, reason=OUT_OF_MEMORY if full else None)

    def _copy(self) -> bool:
        """Copy one chunk of output; False at its end, and when there is none now."""
        try:
            chunk = os.read(self.output_fd, _CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            self.log.write(chunk)
        return bool(chunk)

    def _told_to_end(self) -> bool:
        return signal.SIGTERM in os.read(self.wakeup_fd, 4096)

    def _terminate(self) -> None:
        # Launchers around a namespace ignore TERM, so it can go to all alike.
        for entry in descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(entry.pid, signal.SIGTERM)

    def _reap(self) -> int | None:
        code = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return code
            if pid == 0:
                return code
            if pid == self.child:
                code = self.plan.exit_code(os.waitstatus_to_exitcode(status))


class Output:
    """Writes output to the log without the secrets; every other byte stays as it is."""

    def __init__(self, log: BoundedLog, secrets: list[str]) -> None:
        self._log = log
        self._stream = None
        self._text = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        if secrets:
            # Most instances have none, and their keepers stay small.
            from buildqueue.backends.masking import Masker

            self._stream = Masker(secrets).stream()

    def write(self, chunk: bytes) -> None:
        """Write the chunk, but for an end of it that may be the start of a secret."""
        if self._stream is None:
            self._log.write(chunk)
        else:
            self._put(self._stream.feed(self._text.decode(chunk)))

    def close(self) -> None:
        """Write what is left and close the log."""
        if self._stream is not None:
            left = self._stream.feed(self._text.decode(b"", final=True))
            self._put(left + self._stream.flush())
        self._log.close()

    def _put(self, text: str) -> None:
        if text:
            self._log.write(text.encode("utf-8", "surrogateescape"))


def write_exit(folder: Path, ended: Exit) -> None:
    """Write the exit file as a whole."""
    beside = folder / f"{EXIT_NAME}.new"
    content = {"exit_code": ended.code, "exit_reason": ended.reason}
    beside.write_text(json.dumps(content), "utf-8")
    beside.replace(folder / EXIT_NAME)


def read_exit(folder: Path) -> Exit | None:
    """Return what the exit file says; None when the keeper did not get to write it."""
    try:
        found = json.loads((folder / EXIT_NAME).read_text("utf-8"))
        return Exit(code=int(found["exit_code"]), reason=found["exit_reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _request(daemon: socket.socket) -> dict[str, Any] | None:
    with daemon.makefile("rb") as lines:
        line = lines.readline()
    if not line.endswith(b"\n"):
        return None  # the daemon died in the middle of it
    request: dict[str, Any] = json.loads(line)
    return request


def _answer(daemon: socket.socket, content: Mapping[str, object]) -> None:
    try:
        daemon.sendall(json.dumps(content).encode() + b"\n")
    except OSError:
        return  # the daemon is gone; the next one finds this process by its identity


def _listen_to_signals() -> int:
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    return reader


if __name__ == "__main__":
    sys.exit(main())
