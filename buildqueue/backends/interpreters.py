"""Which Python runs other people's code, and can that code's user reach it?

An ordinary user's workloads use the interpreter the worker uses. Root's workloads run
as unprivileged users, to whom an interpreter below /root is closed: then the system's
is taken, or a copy is made. Each answer was tried for real, as such a user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from buildqueue.backends.launching import SYSTEM_PATH
from buildqueue.exceptions import Rejected

_NAMES = ("python3", *(f"python3.{minor}" for minor in range(16, 8, -1)))
_MINIMUM = "import sys, ctypes, ssl, venv; sys.exit(sys.version_info < (3, 9))"
_WITH_PIP = f"import ensurepip; {_MINIMUM}"
_NOT_COPIED = ("__pycache__", "site-packages", "test", "tests", "idlelib", "config-*")


def base_python() -> Path:
    """Return the interpreter beneath the virtual environment this process runs in."""
    running = getattr(sys, "_base_executable", None) or sys.executable
    return Path(os.path.realpath(running))


def reachable_python(*, uid: int, copies: Path) -> Path:
    """Return a Python >= 3.9 that the unprivileged `uid` can run.

    Preferred is one that can also make virtual environments with pip. As the last
    resort the worker's own is copied into `copies`, once a version: the copy appears
    by a rename, so a process that dies on the way leaves only a folder `.copy-*`.
    """
    candidates = [base_python(), *_system_pythons()]
    for candidate in candidates:
        if _runs(candidate, _WITH_PIP, uid=uid):
            return candidate
    copied = _copied_python(copies)
    if copied is not None and _runs(copied, _WITH_PIP, uid=uid):
        return copied
    for candidate in candidates:
        if _runs(candidate, _MINIMUM, uid=uid):
            return candidate
    raise Rejected(
        "python_unreachable",
        f"no Python can be run by an unprivileged user: {candidates[0]} is closed to "
        "it, and the system has no python3 of 3.9 or later; install python3 and "
        "python3-venv",
    )


def _system_pythons() -> list[Path]:
    found = (shutil.which(name, path=SYSTEM_PATH) for name in _NAMES)
    return list(dict.fromkeys(Path(os.path.realpath(path)) for path in found if path))


def _runs(python: Path, script: str, *, uid: int) -> bool:
    try:
        done = subprocess.run(
            [str(python), "-I", "-S", "-c", script],
            env={"PATH": SYSTEM_PATH},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            user=uid,
            group=uid,
            extra_groups=[],
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _copied_python(copies: Path) -> Path | None:
    version = ".".join(str(part) for part in sys.version_info[:3])
    home = copies / f"python-{version}"
    executable = home / "bin" / base_python().name
    if executable.exists():
        return executable
    try:
        copies.mkdir(mode=0o755, parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".copy-", dir=copies))
    except OSError:
        return None
    try:
        _copy_prefix(base_python().parent.parent, staging)
        staging.rename(home)
    except OSError:
        # Another process may have been first: then its copy is as good.
        shutil.rmtree(staging, ignore_errors=True)
    return executable if executable.exists() else None


def _copy_prefix(prefix: Path, staging: Path) -> None:
    for name in ("bin", "lib"):
        shutil.copytree(
            prefix / name,
            staging / name,
            symlinks=True,
            ignore=shutil.ignore_patterns(*_NOT_COPIED),
        )
    for folder, _, files in os.walk(staging):
        Path(folder).chmod(0o755)
        for file in files:
            path = Path(folder, file)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
