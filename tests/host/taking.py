"""What may a run take too much of? Each way, for as long as nobody ends it."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MIB = 1024 * 1024
HOLD = "import time; held = b'x' * ({} * 1024 * 1024); time.sleep(600)"


def burn_cpu(seconds: float) -> None:
    """Loop in Python."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def eat_memory(mebibytes: int) -> None:
    """Have three children hold so much each, none of which is too large by itself."""
    _start(3, HOLD.format(mebibytes))
    time.sleep(600)


def fork_many(count: int) -> None:
    """Have so many children at once, and take no notice of those that cannot be made."""
    for _ in range(count):
        try:
            _start(1, HOLD.format(0))
        except OSError:
            continue
    time.sleep(600)


def write_big(path: str, mebibytes: int) -> None:
    """Write one large file."""
    with Path(path).open("wb") as file:
        for _ in range(mebibytes):
            file.write(b"x" * MIB)


def pipeline() -> None:
    """Wait for a shell that waits for a pipeline."""
    subprocess.run(["sh", "-c", "yes pipeline | cat >/dev/null"], check=True)


def bounds() -> dict[str, Any]:
    """Return what bounds this process."""
    return {
        "file": resource.getrlimit(resource.RLIMIT_FSIZE),
        "address_space": resource.getrlimit(resource.RLIMIT_AS),
        "groups": Path("/proc/self/cgroup").read_text(),
    }


def _start(count: int, program: str) -> None:
    for _ in range(count):
        subprocess.Popen([sys.executable, "-S", "-E", "-c", program])
