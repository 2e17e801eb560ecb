"""How does the daemon live: one a root, detached, ready when it says so, gone cleanly?

A lock on a file says that it lives; the kernel drops it with the process. TERM and
INT end the daemon and leave the instances to the next one; the `shutdown` verb can end
them too.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import logging.handlers
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from buildqueue.backends.confinement import detect
from buildqueue.backends.localruntime import cgroups, recovery
from buildqueue.backends.localruntime.control import Control
from buildqueue.backends.localruntime.dispatch import Dispatch
from buildqueue.backends.localruntime.folders import Folders
from buildqueue.backends.localruntime.places import Places
from buildqueue.backends.localruntime.plans import Plans
from buildqueue.backends.localruntime.ports import PortRange, Ports, ephemeral_range
from buildqueue.backends.localruntime.sealing import Sealer
from buildqueue.backends.localruntime.settings import Timing
from buildqueue.backends.localruntime.state import Store
from buildqueue.backends.localruntime.upkeep import Upkeep
from buildqueue.backends.localruntime.verbs import Verbs

logger = logging.getLogger(__name__)

_LOG_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `serve` was asked for."""

    root: Path
    ports: PortRange
    timing: Timing
    accept_unconfined: bool


def lock(places: Places) -> TextIO | None:
    """Return the held lock file, or None while another daemon holds it."""
    file = places.lock.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def log_to(path: Path) -> None:
    """Send all logging to a file that is rotated."""
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8"
    )
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])


async def run(
    options: Options, places: Places, sealer: Sealer, ready: int | None
) -> None:
    """Serve until told to stop. The caller holds the lock and keeps it."""
    _raise_file_limit()
    confinement = await asyncio.to_thread(detect, accept_none=options.accept_unconfined)
    groups = cgroups.detect()
    upkeep = Upkeep(
        store=Store(places.state),
        sealer=sealer,
        plans=Plans(root=places.root, confinement=confinement, groups=groups),
        ports=Ports(options.ports, ephemeral_range()),
        folders=Folders(root=places.instances),
        timing=options.timing,
    )
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    await recovery.find_again(upkeep)
    verbs = Verbs(upkeep)

    async def shut_down(keep_instances: bool) -> None:
        if not keep_instances:
            await upkeep.end_all()
        stopping.set()

    control = Control(Dispatch(verbs, shut_down), upkeep.is_outside)
    await control.serve(places.listen())
    logger.info("serving %s, confined by %s", places.root, confinement.mode)
    logger.info("control groups: %s", ", ".join(sorted(groups.controllers)) or "none")
    if not sealer.is_lasting:
        logger.warning("no key was given: instances with an environment start once")
    if ready is not None:
        os.write(ready, b"ready\n")
        os.close(ready)
    await _tick_until(stopping, upkeep)
    await control.close()
    await upkeep.close()
    logger.info("stopped")


async def _tick_until(stopping: asyncio.Event, upkeep: Upkeep) -> None:
    while not stopping.is_set():
        try:
            async with asyncio.timeout(upkeep.timing.tick):
                await stopping.wait()
        except TimeoutError:
            try:
                await recovery.reconcile(upkeep)
            except Exception:
                # The next tick looks again; the proxies of all must go on.
                logger.exception("a look at what should be true failed")


def _stop_on_signals(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
