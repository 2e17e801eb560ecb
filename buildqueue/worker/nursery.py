"""How are the supervisor's children made, and how are none of them lost?

Keeps the template process, has it fork children, reaps what ends, and ends what a dead
guardian left behind. If the template dies a new one is started.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import IO, Any

import psutil
from django.utils.module_loading import import_string

from ..queue.services import Service, ServiceCommand
from . import linux
from .child import Child, Ends

logger = logging.getLogger(__name__)

LAST_WORDS = 2000  # bytes, of a host's service that fails


class CannotPreload(RuntimeError):
    """The template ended before it was ready; what it printed says why."""

    def __str__(self) -> str:
        return "the process that loads Django and the handlers did not start"


class Nursery:
    """Makes children by way of the template; knows every process that is its own."""

    def __init__(self) -> None:
        linux.adopt_orphans()
        self._orders = socket.socket()
        self._template: subprocess.Popen[bytes] | None = None
        # By dotted path, those that were started by us: pid, and what it complains of.
        self._services: dict[str, tuple[int, IO[bytes]]] = {}
        self._adopted: set[int] = set()  # what services left to us, living on
        self.preloaded = False

    def start_template(self) -> None:
        """Start the template and wait until it has loaded everything."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-m", "buildqueue.worker.template", str(its.fileno())]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self._template = subprocess.Popen(
            argv,
            pass_fds=[its.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        its.close()
        answer = ours.recv(65536)
        if not answer:
            ours.close()
            raise CannotPreload
        told = json.loads(answer)
        self._orders.close()
        self.preloaded, self._orders = told["preloaded"], ours
        if not self.preloaded:
            logger.warning("slots start slowly, each by itself: %s", told["why"])

    def make(self, role: str, number: int, order: dict[str, Any], ends: Ends) -> Child:
        """Have a child forked; it says `ready` on its control channel."""
        child = Child(role=role, number=number, control=ends.control, watch=ends.watch)
        full = order | {"role": role, "slot": str(child.incarnation)}
        message = json.dumps(full).encode()
        try:
            self._send(message, ends.given)
        except (OSError, CannotPreload) as error:
            # Its ends are closed below, so it counts as one that died at its start.
            logger.error("no child can be made now: %s", error)
        finally:
            for fd in ends.given:
                os.close(fd)
        return child

    def _send(self, message: bytes, fds: tuple[int, ...]) -> None:
        try:
            socket.send_fds(self._orders, [message], list(fds))
        except OSError:
            logger.warning("the template process died; starting another")
            self.start_template()
            socket.send_fds(self._orders, [message], list(fds))

    def reap(self) -> None:
        """Collect every child that has ended, adopted ones included."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if self._template and pid == self._template.pid:
                    self._template.returncode = os.waitstatus_to_exitcode(status)
                elif status:
                    self._tell_ended(pid, os.waitstatus_to_exitcode(status))

    def end_strays(self, guardians: set[int]) -> bool:
        """End children that are none of ours; tell whether there was one.

        What a killed guardian left becomes ours bit by bit, so look until nothing is
        found. One that has ended and is not reaped yet counts: whoever was read as its
        child is ours by now.
        """
        known = self._own(guardians) | self._adopted
        found = False
        for stray in psutil.Process().children():
            if stray.pid in known:
                continue
            found = True
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in [*stray.children(recursive=True), stray]:
                    each.send_signal(signal.SIGKILL)
        return found

    def _own(self, guardians: set[int]) -> set[int]:
        template = {self._template.pid} if self._template else set()
        return guardians | template | {pid for pid, _ in self._services.values()}

    def know_adopted(self, guardians: set[int]) -> None:
        """Remember what a service that ended has left: it is no stray of a job.

        Only while every guardian lives: what a dead one left must not get in here.
        """
        children = {child.pid for child in psutil.Process().children()}
        if guardians <= children:
            self._adopted = children - self._own(guardians)

    def start_services(self, paths: Iterable[str]) -> None:
        """Start those of the host's services that do not run; they outlive the worker."""
        for path in paths:
            known = self._services.get(path)
            if known and psutil.pid_exists(known[0]):
                continue
            if command := self._command(import_string(path), path):
                complaints = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as it runs)
                service = subprocess.Popen(
                    command.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                    start_new_session=True,
                    env={**_kept(), **command.env},
                )
                self._services[path] = (service.pid, complaints)
                service.returncode = 0  # reaped by `reap`, never waited for

    def _tell_ended(self, pid: int, code: int) -> None:
        """Say that a host's service has failed, and its last words."""
        for path, (known, complaints) in self._services.items():
            if known == pid:
                size = complaints.seek(0, os.SEEK_END)
                complaints.seek(max(size - LAST_WORDS, 0))
                said = complaints.read().decode("utf-8", "replace").strip()
                logger.error("host service %s ended with %s: %s", path, code, said)

    @staticmethod
    def _command(service: Service, path: str) -> ServiceCommand | None:
        try:
            command = service()
        except Exception:  # a host's own function: its fault must not end the worker
            logger.exception("host service %s cannot be started", path)
            return None
        return ServiceCommand(argv=command) if isinstance(command, list) else command

    def close(self) -> None:
        """Let the template go; it ends when its socket is closed."""
        self._orders.close()


# A service serves the code of strangers: it gets nothing of the worker's environment
# but what a program needs to run at all.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH")


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ}
