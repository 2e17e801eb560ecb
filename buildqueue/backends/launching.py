"""How does a process start with exactly the environment, limits and rights it has?

A launch goes through a few lines of Python that run just before the program: they set
resource limits, forbid new privileges, reset signals, and only then put the workload's
environment in place. Until that moment nothing the workload chose (LD_PRELOAD, say) can
touch a process that still has the worker's rights.
"""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildqueue.exceptions import Rejected

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# The kernel takes no single string above 128 KiB, and the environment travels as one.
MAX_ENVIRONMENT_BYTES = 120 * 1024

_ENVELOPE = "BUILDQUEUE_LAUNCH_ENV"
_PRELUDE = f"""\
import json, os, resource, signal, sys
settings = json.loads(sys.argv[1])
for number, soft, hard in settings["limits"]:
    ceiling = resource.getrlimit(number)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(number, (soft, hard))
if settings["no_new_privs"]:
    import ctypes
    if ctypes.CDLL(None).prctl(38, 1, 0, 0, 0):
        sys.exit("cannot give up new privileges")
for number in signal.valid_signals():
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        ignored = number in settings["ignore"]
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
env = dict(os.environ)
if settings["unwrap"]:
    env = json.loads(env["{_ENVELOPE}"])
try:
    os.execvpe(sys.argv[2], sys.argv[2:], env)
except OSError as error:
    sys.stderr.write("cannot start " + sys.argv[2] + ": " + error.strerror + "\\n")
    sys.exit(127)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits of one process; never above what the worker itself may have."""

    open_files: int = 4096
    open_files_hard: int = 65536

    def settings(self) -> list[tuple[int, int, int]]:
        """Return (number, soft, hard) for each limit; a core dump holds secrets."""
        return [
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_NOFILE, self.open_files, self.open_files_hard),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """What Popen needs to start a process: `Popen(plan.argv, **plan.popen_kwargs())`.

    `env` is what the launcher sees; the program itself finds the environment it was
    promised, and nothing else. Start it from a thread that outlives the process: in a
    namespace the process ends with the thread that started it.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    user: int | None = None
    group: int | None = None
    extra_groups: list[int] | None = None
    umask: int = 0o077
    name: str = ""  # what messages call it, where argv[0] is a launcher
    # bubblewrap reports a signal as 128 + its number, as a shell does.
    signals_as_exit_codes: bool = False

    @property
    def label(self) -> str:
        """Return the program's name for messages."""
        return self.name or Path(self.argv[0]).name

    def popen_kwargs(self) -> dict[str, Any]:
        """Return the arguments of Popen besides argv, a new session included."""
        return {
            "env": self.env,
            "cwd": self.cwd,
            "user": self.user,
            "group": self.group,
            "extra_groups": self.extra_groups,
            "umask": self.umask,
            "close_fds": True,
            "start_new_session": True,
        }

    def exit_code(self, returncode: int) -> int:
        """Return Popen's code with a negative number for the signal that ended it."""
        if self.signals_as_exit_codes and 128 < returncode <= 128 + signal.NSIG:
            return 128 - returncode
        return returncode


def wrapped_environment(
    given: Mapping[str, str], writable: Sequence[Path]
) -> dict[str, str]:
    """Return the launcher's environment, which carries the workload's as one string.

    The workload's is what was given, and four variables that every program expects.
    """
    env = {
        "PATH": SYSTEM_PATH,
        "LANG": "C.UTF-8",
        "HOME": str(writable[0]) if writable else "/nonexistent",
        "TMPDIR": str(writable[0]) if writable else "/tmp",  # noqa: S108 (sticky)
        **given,
    }
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise Rejected(
                "invalid_environment",
                f"the environment variable {name!r} cannot be set: "
                "a name must not be empty or hold '=' or NUL, a value no NUL",
            )
    envelope = json.dumps(env)
    if len(envelope) > MAX_ENVIRONMENT_BYTES:
        raise Rejected(
            "environment_too_large",
            f"the environment takes {len(envelope)} bytes; "
            f"at most {MAX_ENVIRONMENT_BYTES} fit. Put large values into a file",
        )
    return {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", _ENVELOPE: envelope}


def with_prelude(
    python: Path,
    argv: Sequence[str],
    *,
    limits: Limits | None = None,
    no_new_privs: bool = False,
    ignore: Sequence[int] = (),
    unwrap: bool = False,
) -> list[str]:
    """Return an argv that prepares its own process and then becomes `argv`."""
    settings = {
        "limits": limits.settings() if limits else [],
        "no_new_privs": no_new_privs,
        "ignore": [int(number) for number in ignore],
        "unwrap": unwrap,
    }
    # -I and -S: no user folder, no PYTHON* variable, no site hook before the program.
    return [str(python), "-I", "-S", "-c", _PRELUDE, json.dumps(settings), *argv]
