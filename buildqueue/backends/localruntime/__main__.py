"""How is the host's runtime started, looked at and stopped by hand?

`serve` returns once the daemon answers, and at once when one does already.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import subprocess
import sys
from pathlib import Path

from buildqueue.backends.localruntime import daemon
from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.backends.localruntime.places import Places
from buildqueue.backends.localruntime.ports import DEFAULT_RANGE, PortRange
from buildqueue.backends.localruntime.sealing import Sealer
from buildqueue.backends.localruntime.service import (
    KEY_VARIABLE,
    scrubbed_environment,
)
from buildqueue.backends.localruntime.settings import Timing
from buildqueue.backends.localruntime.state import UnreadableState
from buildqueue.exceptions import BackendError

_PR_SET_DUMPABLE = 4
_RUNNING = b"running\n"
_READY = b"ready\n"


def main(arguments: list[str] | None = None) -> int:
    """Run one sub-command and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    try:
        if options.command == "status":
            return _status(options.root)
        if options.command == "stop":
            return _stop(options.root, keep_instances=options.keep_instances)
        return _serve_here(options) if options.foreground else _detach(given)
    except BackendError as error:
        return _failed(f"{error.code}: {error}")


def _detach(given: list[str]) -> int:
    reader, writer = os.pipe()
    module = "buildqueue.backends.localruntime"
    with open(reader, "rb") as answer:
        subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", module, *given),
                *("--foreground", "--ready-fd", str(writer)),
            ],
            env=scrubbed_environment() | _given_keys(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[writer],
            start_new_session=True,
        )
        os.close(writer)
        said = answer.read()
    if said == _RUNNING:
        print("the runtime is running already")
        return 0
    if said == _READY:
        return 0
    return _failed(said.decode("utf-8", "replace") or "the daemon died; see daemon.log")


def _given_keys() -> dict[str, str]:
    return (
        {KEY_VARIABLE: os.environ[KEY_VARIABLE]} if KEY_VARIABLE in os.environ else {}
    )


def _serve_here(options: argparse.Namespace) -> int:
    sealer = Sealer.take_from(os.environ)
    _conceal()
    kept = scrubbed_environment()
    os.environ.clear()
    os.environ.update(kept)
    os.umask(0o077)
    if options.ready_fd is not None:
        # A keeper that inherited it would keep the starter waiting.
        os.set_inheritable(options.ready_fd, False)
    # Relative paths are meant from where it was started, which may be unmounted later.
    root = options.root.absolute()
    os.chdir("/")
    try:
        places = Places.below(root)
        held = daemon.lock(places)
        if held is None:
            _say(options.ready_fd, _RUNNING)
            return 0
        with held:
            daemon.log_to(places.log)
            wanted = daemon.Options(
                root=root,
                ports=options.ports,
                timing=Timing(drain=options.drain, grace=options.grace),
                accept_unconfined=options.accept_unconfined,
            )
            asyncio.run(daemon.run(wanted, places, sealer, options.ready_fd))
    except (BackendError, UnreadableState, OSError, ValueError) as error:
        _say(options.ready_fd, str(error).encode())
        return _failed(str(error))
    return 0


def _conceal() -> None:
    """Close this process's memory, its first environment included, to its own user."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _status(root: Path) -> int:
    runtime = LocalRuntime(root)
    found = runtime.ping()
    print(f"running, pid {found['pid']}, version {found['version']}")
    for workload in runtime.workloads():
        print(f"{workload.workload_id}  {workload.address}")
        for instance in workload.instances:
            mark = "*" if instance.instance_id == workload.active else " "
            print(
                f"  {mark} {instance.instance_id}  {instance.state}  "
                f"pid {instance.pid}  port {instance.port}  "
                f"exit code {instance.exit_code}  restarts {instance.restarts}  "
                f"replicas {instance.replicas_running} of {len(instance.replicas)}"
            )
    return 0


def _stop(root: Path, *, keep_instances: bool) -> int:
    LocalRuntime(root).shut_down(keep_instances=keep_instances)
    return 0


def _failed(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


def _say(descriptor: int | None, message: bytes) -> None:
    if descriptor is not None:
        os.write(descriptor, message)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m buildqueue.backends.localruntime",
        description="The host's local runtime: deployed processes behind addresses.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser(
        "serve", help="start the daemon; returns once it answers, or runs already"
    )
    status = commands.add_parser("status", help="show the daemon and all workloads")
    stop = commands.add_parser(
        "stop", help="end the daemon and all instances; the next serve restarts them"
    )
    for command in (serve, status, stop):
        command.add_argument(
            "--root",
            type=Path,
            required=True,
            help="folder of the local backend: bundles, state, socket, logs",
        )
    stop.add_argument(
        "--keep-instances",
        action="store_true",
        help="end the daemon alone; its addresses are closed until the next serve",
    )
    _add_serve_options(serve)
    return parser


def _add_serve_options(serve: argparse.ArgumentParser) -> None:
    default = Timing()
    serve.add_argument(
        "--ports",
        type=_port_range,
        default=PortRange.parse(DEFAULT_RANGE),
        metavar="FIRST-LAST",
        help=f"ports for addresses and instances (default {DEFAULT_RANGE})",
    )
    serve.add_argument(
        "--drain",
        type=float,
        default=default.drain,
        metavar="SECONDS",
        help=f"for requests in flight at a switch (default {default.drain:g})",
    )
    serve.add_argument(
        "--grace",
        type=float,
        default=default.grace,
        metavar="SECONDS",
        help=f"from TERM to KILL of an instance (default {default.grace:g})",
    )
    serve.add_argument(
        "--accept-unconfined",
        action="store_true",
        help="run instances even where they cannot be confined",
    )
    serve.add_argument(
        "--foreground",
        action="store_true",
        help="do not detach (for a service manager)",
    )
    serve.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)


def _port_range(text: str) -> PortRange:
    try:
        return PortRange.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
