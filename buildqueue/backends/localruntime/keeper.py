"""Who looks after one instance while the daemon comes and goes? Its keeper.

A keeper launches one program, is the parent of whatever that leaves behind, writes its
output to a bounded log, and ends the whole tree when the program exits, when it gets
TERM, or when it dies. It outlives a killed daemon, so the agents do as well.

It reads one JSON line on descriptor 0 and answers one there. Nothing was launched if
the line never came. How the program ended stands in the exit file before the keeper is
gone; a killed keeper leaves no exit file, and the daemon clears up after it.
"""

from __future__ import annotations

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
from buildqueue.backends.localruntime.identity import descendants, entry_of, kill_below
from buildqueue.backends.localruntime.logs import BoundedLog

OUTPUT_NAME = "output.log"
EXIT_NAME = "exit.json"

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
    code = tree.watch()
    write_exit(Path(request["folder"]), code)
    return 0


@dataclass(slots=True)
class Tree:
    """The launched program, its descendants, and its output."""

    child: int
    start_time: int
    child_fd: int
    output_fd: int
    log: BoundedLog
    wakeup_fd: int
    grace: float
    plan: LaunchPlan

    @classmethod
    def launch(cls, request: Mapping[str, Any]) -> Tree:
        """Start the program. Its output and its orphans come to this process."""
        if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError("cannot become the parent of orphans")
        plan = LaunchPlan(**request["plan"])
        log = BoundedLog(Path(request["folder"], OUTPUT_NAME), request["log_bytes"])
        wakeup_fd = _listen_to_signals()
        output_fd, child_end = os.pipe()
        try:
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
            wakeup_fd=wakeup_fd,
            grace=float(request["grace"]),
            plan=plan,
        )

    def watch(self) -> int:
        """Return how the program ended, once nothing of its tree is left."""
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
        return code

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


def write_exit(folder: Path, code: int) -> None:
    """Write the exit file as a whole."""
    beside = folder / f"{EXIT_NAME}.new"
    beside.write_text(json.dumps({"exit_code": code}), "utf-8")
    beside.replace(folder / EXIT_NAME)


def read_exit(folder: Path) -> int | None:
    """Return what the exit file says; None when the keeper did not get to write it."""
    try:
        found = json.loads((folder / EXIT_NAME).read_text("utf-8"))["exit_code"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None


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
