"""Do the parts of the demo do what they say where something is wrong?"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from project.demo.alone import RunsAlready, alone
from project.demo.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the demo in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_busy_port_is_stepped_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: int = taken.getsockname()[1]

        assert free_port(port) > port


def test_a_port_that_is_none_is_refused_with_a_sentence(tmp_path: Path) -> None:
    done = run("project.demo", PORT="abc", DATA_DIR=str(tmp_path))

    assert done.returncode == 2
    assert "invalid int value: 'abc'" in done.stderr


def test_a_database_that_is_down_is_told_without_a_traceback(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    done = run("project.demo", DATABASE_URL=url, DATA_DIR=str(tmp_path))

    assert done.returncode == 1
    assert "The demo failed: the database cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kept", [False, True])
def test_stopping_is_fine_with_nothing_and_with_something_left(
    tmp_path: Path, kept: bool
) -> None:
    postgres = "project.embedded_postgres"
    folder = str(tmp_path / "postgres")
    if kept:
        assert run(postgres, "start", "--data-dir", folder).returncode == 0

    done = run("project.demo.stop", DATA_DIR=str(tmp_path))

    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
    assert run(postgres, "status", "--data-dir", folder).returncode == 3


def test_a_second_demo_in_one_folder_is_told_of_the_first(tmp_path: Path) -> None:
    told = f"process {os.getpid()}"
    with alone(tmp_path), pytest.raises(RunsAlready, match=told), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass  # the first is over
