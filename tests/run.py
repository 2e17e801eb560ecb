"""`python -m tests.run`: how is the whole suite run, and nothing left behind?

On DATABASE_URL, or on an embedded PostgreSQL that is not durable and is stopped at the
end if this run started it. Two processes; browser tests only where Chromium is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from project import embedded_postgres

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "var" / "test-postgres"


def main(arguments: list[str]) -> int:
    """Run pytest; return its exit code."""
    if os.environ.get("DATABASE_URL"):
        return _pytest(arguments)
    ran_before = embedded_postgres.status(FOLDER).pid is not None
    try:
        return _pytest(arguments)
    finally:
        if not ran_before:
            embedded_postgres.stop(FOLDER)


def _pytest(arguments: list[str]) -> int:
    parallel = os.environ.get("TEST_PROCESSES", str(min(os.cpu_count() or 2, 4)))
    command = [sys.executable, "-m", "pytest", "-n", parallel, "--dist", "loadgroup"]
    return subprocess.run([*command, *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
