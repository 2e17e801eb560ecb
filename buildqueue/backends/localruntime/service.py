"""Is the host's runtime there, and how is it started when it is not?

The worker's supervisor asks `service` now and then and spawns what it returns;
`ensure_running` does both for tests and tools. The daemon is started by a short-lived
process, gets an environment without the starter's secrets, and leaves its session.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import buildqueue
from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.backends.localruntime.places import Places
from buildqueue.backends.localruntime.ports import DEFAULT_RANGE
from buildqueue.exceptions import Unavailable

# Names the daemon's keys in its environment, for as long as it takes to read them.
KEY_VARIABLE = "BUILDQUEUE_RUNTIME_KEY"

_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


def service(
    root: Path,
    *,
    ports: str = DEFAULT_RANGE,
    accept_unconfined: bool = False,
    options: tuple[str, ...] = (),
) -> list[str] | None:
    """Return the argv that starts the runtime, or None while one answers.

    Spawn it with `scrubbed_environment()`. It is harmless to spawn it twice: the second
    finds the lock taken and exits with 0.
    """
    if is_running(root):
        return None
    module = "buildqueue.backends.localruntime"
    argv = [sys.executable, "-P", "-m", module, "serve", "--root", str(root.absolute())]
    argv += ["--ports", ports, *options]
    return [*argv, "--accept-unconfined"] if accept_unconfined else argv


def is_running(root: Path) -> bool:
    """Tell whether a daemon takes connections."""
    try:
        Places.below(root).connect(timeout=5.0).close()
    except OSError:
        return False
    return True


def scrubbed_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what the daemon may know of its starter's environment."""
    given = os.environ if environ is None else environ
    kept = {name: given[name] for name in _KEPT if name in given}
    package = str(Path(buildqueue.__file__).parent.parent)
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **kept, "PYTHONPATH": package}


def ensure_running(
    root: Path,
    timeout: float = 60.0,
    *,
    options: tuple[str, ...] = (),
    key: str | None = None,
) -> LocalRuntime:
    """Return the runtime, started if need be; raise `Unavailable` when it is not up.

    Asks again while a dying daemon still holds the lock, or another is just starting.
    """
    deadline = time.monotonic() + timeout
    while True:
        argv = service(root, options=options)
        if argv is not None:
            _start(argv, timeout, key)
        runtime = LocalRuntime(root)
        try:
            runtime.ping()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return runtime


def _start(argv: list[str], timeout: float, key: str | None) -> None:
    own = {} if key is None else {KEY_VARIABLE: key}
    try:
        done = subprocess.run(
            argv,
            env=scrubbed_environment() | own,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable("runtime_not_started", str(error)) from error
    if done.returncode:
        raise Unavailable("runtime_not_started", done.stderr.strip()[-2000:])
