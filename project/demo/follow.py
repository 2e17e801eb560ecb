"""What does the owner of an agent see while it is built? The live log, then the steps."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import Any

from buildqueue.queue.logs import for_terminal

from .client import Client

POLL_SECONDS = 0.3


def follow(client: Client, links: dict[str, str]) -> dict[str, Any]:
    """Print the job's log as it grows; return the job once all of it is there."""
    since, finished = "0.0", False
    while not finished:
        page = client.get(f"{links['log']}?since={since}")
        for chunk in page["chunks"]:
            for line in chunk["text"].splitlines():
                sys.stdout.write(f"    {for_terminal(line)}\n")
        sys.stdout.flush()
        since, finished = page["next"], page["finished"]
        if not page["chunks"]:
            time.sleep(POLL_SECONDS)
    return client.get(links["job"])


def wait(client: Client, links: dict[str, str]) -> dict[str, Any]:
    """Return the job once it has ended."""
    while (job := client.get(links["job"]))["completed_at"] is None:
        time.sleep(POLL_SECONDS)
    return job


def print_steps(job: dict[str, Any]) -> None:
    """Print each step of the last attempt with the time it took."""
    for step in job["steps"]:
        took = "unfinished"
        if step["finished_at"]:
            ends, begins = map(_moment, (step["finished_at"], step["started_at"]))
            took = f"{(ends - begins).total_seconds():6.2f} s"
        sys.stdout.write(f"    {step['name']:<12} {took}\n")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
