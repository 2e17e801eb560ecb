"""Do the promises hold while everything dies? The short form of `make chaos`.

On a PostgreSQL of its own, which it restarts: the suite's is left alone.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

PATIENCE = 600


@pytest.mark.slow
@pytest.mark.xdist_group("chaos")
def test_every_promise_holds_while_everything_dies() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--minutes", "0.4", "--seed", "7"]
    told = subprocess.run(
        [*command, "--discard"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "DATABASE_URL"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("PASS") >= 15, told.stdout
