"""Places for real servers: reachable for the account root drops to, and gone after."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from project.embedded_postgres import binaries, places
from project.embedded_postgres.account import for_new_cluster
from tests.embedded.servers import is_gone
from tests.support.waiting import wait_until


@pytest.fixture
def ground() -> Iterator[Path]:
    """A short, reachable folder; whatever still works in it at the end is ended."""
    folder = Path(tempfile.mkdtemp(prefix="bq-", dir="/var/tmp")).resolve()
    folder.chmod(0o755)
    yield folder
    end_processes_in(folder)
    shutil.rmtree(folder)


@pytest.fixture
def pg(ground: Path) -> Path:
    return ground / "pg"


@pytest.fixture
def private_roots(ground: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Stand-ins for /var/lib and /var/tmp, so that tests leave nothing there."""
    roots = (ground / "lib", ground / "tmp")
    for root in roots:
        root.mkdir(mode=0o755)
    monkeypatch.setattr(places, "PRIVATE_ROOTS", roots)
    return roots


@pytest.fixture
def unrunnable_wheel(
    ground: Path, private_roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Programs that the server cannot run where they lie, as a wheel would have them.

    For root because a folder above them is closed, for others because of its name.
    """
    closed = ground / ("closed" if os.geteuid() == 0 else "a$b")
    closed.mkdir(mode=0o700)
    whole = binaries.copy_into(closed, binaries.locate())
    assert whole.package is not None
    made = binaries.Binaries(folder=whole.folder, package=whole.package, version="1.0")
    assert not made.runs_in_place(for_new_cluster())
    monkeypatch.setattr(binaries, "locate", lambda: made)
    return closed


def end_processes_in(folder: Path) -> None:
    ended = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(folder):
                process.kill()
                ended.append(process)
    # Not until they are reaped: that is up to the machine's first process.
    wait_until(lambda: all(is_gone(process.pid) for process in ended))
