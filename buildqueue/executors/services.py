"""What does a worker start and offer on its host? The local runtime, and being there.

Both are asked by the worker's supervisor now and then; neither needs the database. The
key that seals what the runtime keeps goes into the runtime's environment alone, since a
command line is seen by everybody.
"""

from __future__ import annotations

from importlib.util import find_spec

from .. import conf
from ..builds import hosts
from ..queue.services import ServiceCommand
from . import host


def local_runtime_in_use() -> ServiceCommand | None:
    """Return the same on a host that has built or run something before, else None.

    A worker that only queues jobs starts no runtime.
    """
    return local_runtime() if host.in_use() else None


def local_runtime() -> ServiceCommand | None:
    """Return the command that is the host's runtime; None while one answers.

    In the foreground: the worker starts it in a session of its own and knows its pid, so
    it is never taken for a stray of some job. It outlives the worker all the same.
    """
    if not _can_run():
        return None
    from ..backends.localruntime.service import KEY_VARIABLE, service
    from ..builds.secrets import runtime_keys

    low, high = conf.get().local_ports
    argv = service(
        host.local_root(),
        ports=f"{low}-{high}",
        accept_unconfined=conf.get().local_allow_unconfined,
        options=("--foreground",),
    )
    if argv is None:
        return None
    keys = runtime_keys(host.host_id())
    return ServiceCommand(argv=argv, env={KEY_VARIABLE: keys})


def stop_local_runtime() -> None:
    """End the host's runtime and its agents; the next start of it starts them again."""
    if not _can_run() or not host.in_use():
        return
    from ..backends.localruntime.client import LocalRuntime
    from ..backends.localruntime.service import is_running

    if is_running(host.local_root()):
        LocalRuntime(host.local_root()).shut_down(keep_instances=False)


def capabilities() -> list[str]:
    """Return what a worker of this host can do that one of another cannot."""
    return [hosts.capability(host.host_id())]


def _can_run() -> bool:
    return find_spec("aiohttp") is not None
