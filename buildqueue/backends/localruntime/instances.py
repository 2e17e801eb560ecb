"""How does the daemon start a replica, and how is it certain that it is gone?

A keeper process is spawned and waits. Its identity is made durable, then it is told
what to launch: a daemon that dies before that leaves a keeper that reads end-of-file
and goes, one that dies after it leaves a replica that the next daemon knows.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from buildqueue.backends.launching import LaunchPlan
from buildqueue.backends.localruntime.cgroups import Group
from buildqueue.backends.localruntime.identity import (
    ProcessIdentity,
    boot_id,
    descendants,
    kill_below,
    kill_session,
)
from buildqueue.backends.localruntime.keeper import EXIT_NAME
from buildqueue.backends.localruntime.logs import ROTATE_BYTES
from buildqueue.exceptions import Unavailable

_ANSWER_SECONDS = 30.0
_MARGIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a keeper is told to launch; it goes over a private socket and nowhere else."""

    plan: LaunchPlan
    folder: Path
    grace: float
    groups: Sequence[Group] = ()
    secrets: Sequence[str] = ()  # never to be written to the log

    def line(self) -> bytes:
        """Return the order as the keeper reads it."""
        request = {
            "plan": asdict(self.plan),
            "folder": str(self.folder),
            "grace": self.grace,
            "groups": [asdict(group) for group in self.groups],
            "secrets": list(self.secrets),
            "log_bytes": ROTATE_BYTES,
        }
        return json.dumps(request).encode() + b"\n"


@dataclass(slots=True)
class WaitingKeeper:
    """A keeper that was spawned and has launched nothing yet."""

    identity: ProcessIdentity
    channel: socket.socket

    async def launch(self, order: Order) -> ProcessIdentity:
        """Have it launch what is ordered; return the process it started."""
        answer = await self._ask(order.line())
        pid, start_time = answer.get("pid"), answer.get("start_time")
        if not isinstance(pid, int) or not isinstance(start_time, int):
            raise _not_launched(str(answer.get("error", "its keeper died")))
        return ProcessIdentity(pid=pid, start_time=start_time, boot_id=boot_id())

    def dismiss(self) -> None:
        """Let it go without launching anything."""
        self.channel.close()
        when_gone(self.identity, lambda: None)

    async def _ask(self, line: bytes) -> Mapping[str, object]:
        reader, writer = await asyncio.open_connection(sock=self.channel)
        try:
            writer.write(line)
            await writer.drain()
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await reader.readline()
            found = json.loads(answer or b"{}")
        except (OSError, TimeoutError, ValueError) as error:
            raise _not_launched(str(error)) from error
        finally:
            writer.close()
        return found if isinstance(found, dict) else {}


def spawn_keeper(folder: Path) -> WaitingKeeper:
    """Spawn a keeper in a session of its own, with nothing of ours but one channel."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / EXIT_NAME).unlink(missing_ok=True)
    module = "buildqueue.backends.localruntime.keeper"
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", module],
                os.environ,
                file_actions=_keeper_files(folder, theirs.fileno()),
                setsid=True,
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
                setsigmask=[],
            )
        except OSError as error:
            ours.close()
            raise _not_launched(str(error)) from error
    identity = ProcessIdentity.of(pid)
    if identity is None:
        ours.close()
        reap(pid)
        raise _not_launched("its keeper died at once")
    return WaitingKeeper(identity=identity, channel=ours)


def _keeper_files(
    folder: Path, channel: int
) -> list[tuple[int, int, int] | tuple[int, int, str, int, int]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return [
        (os.POSIX_SPAWN_DUP2, channel, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, str(folder / "keeper.log"), flags, 0o600),
    ]


def when_gone(identity: ProcessIdentity, then: Callable[[], None]) -> None:
    """Call `then` on the event loop once the process is gone, soon if it is already."""
    loop = asyncio.get_running_loop()
    descriptor = identity.open()
    if descriptor is None:
        reap(identity.pid)
        loop.call_soon(then)
        return

    def gone() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        reap(identity.pid)
        then()

    loop.add_reader(descriptor, gone)


def reap(pid: int) -> None:
    """Take the child out of the process table; of no effect on another's child."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


async def end(
    keeper: ProcessIdentity, child: ProcessIdentity | None, grace: float
) -> None:
    """End the keeper's whole tree: TERM, the grace, KILL. Repeating it is harmless.

    The keeper does it by itself once told, also when the daemon dies on the next line.
    A keeper that does not is killed, after everything below it.
    """
    keeper.signal(signal.SIGTERM)
    if not await _gone(keeper, grace + _MARGIN_SECONDS):
        await asyncio.to_thread(kill_below, keeper.pid)
        keeper.signal(signal.SIGKILL)
        await _gone(keeper, _MARGIN_SECONDS)
    if child is not None:
        await asyncio.to_thread(kill_session, child)


def launched_by(keeper: ProcessIdentity) -> ProcessIdentity | None:
    """Return what a found-again keeper runs."""
    below = descendants(keeper.pid) if keeper.alive() else []
    own = (ProcessIdentity.of(one.pid) for one in below if one.parent == keeper.pid)
    return next((identity for identity in own if identity is not None), None)


async def _gone(identity: ProcessIdentity, timeout: float) -> bool:
    gone = asyncio.Event()
    when_gone(identity, gone.set)
    try:
        async with asyncio.timeout(timeout):
            await gone.wait()
    except TimeoutError:
        return False
    return True


def _not_launched(why: str) -> Unavailable:
    return Unavailable("launch_failed", f"the instance could not be started: {why}")
