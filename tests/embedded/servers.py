"""What the tests here do to servers: ask them, hit them, start them from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg

from tests.support.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[2]


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, connect_timeout=30) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def write_row(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number int)")
        connection.execute("INSERT INTO kept VALUES (1)")


def rows(url: str) -> object:
    return ask(url, "SELECT count(*) FROM kept")


def server_pid(pg: Path) -> int:
    text = (pg / "cluster" / "postmaster.pid").read_text()
    return int(text.partition("\n")[0])


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end(pid: int) -> None:
    psutil.Process(pid).kill()
    wait_until(lambda: is_gone(pid), message=f"{pid} still runs")


def python(code: str, *argv: str | Path) -> subprocess.Popen[str]:
    """Run code in a Python of its own that can import the project."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.strip()


def command(argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "project.embedded_postgres", *argv],
        cwd=PROJECT,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
