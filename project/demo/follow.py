"""What does the owner of an agent see while it is built? The live log, then the steps."""

from __future__ import annotations

import sys
import time
from typing import Any

from .client import Client

POLL_SECONDS = 0.3
FINAL = {"done", "failed", "cancelled"}


def follow(client: Client, links: dict[str, str]) -> dict[str, Any]:
    """Print the job's log as it grows; return the job once it has ended."""
    since = "0.0"
    while True:
        job = client.get(links["job"])
        since = _print_new(client, links["log"], since)
        if job["status"] in FINAL:
            _print_new(client, links["log"], since)
            return job
        time.sleep(POLL_SECONDS)


def _print_new(client: Client, link: str, since: str) -> str:
    while True:
        page = client.get(f"{link}?since={since}")
        if not page["chunks"]:
            return since
        for chunk in page["chunks"]:
            for line in chunk["text"].splitlines():
                sys.stdout.write(f"    {line}\n")
        sys.stdout.flush()
        since = page["next"]


def print_steps(job: dict[str, Any]) -> None:
    """Print each step with the time it took."""
    for step in job["steps"]:
        seconds = step.get("seconds")
        took = "unfinished" if seconds is None else f"{seconds:6.2f} s"
        sys.stdout.write(f"    {step['name']:<12} {took}\n")
