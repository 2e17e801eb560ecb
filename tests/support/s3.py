"""How does a test get an S3-compatible storage? From a server on loopback, a process.

Buckets are the tests' own. The process is ended with the server's context, or earlier by
a test that wants to know what happens without it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from .waiting import wait_until

ALIAS = "sources"
_RUNNING = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A server, and what it keeps."""

    url: str
    process: subprocess.Popen[bytes]

    def client(self) -> Any:
        """Return a client that sees everything."""
        return boto3.client("s3", config=_config(), **self._access())

    def make_bucket(self) -> str:
        """Make an empty bucket; return its name."""
        name = f"bucket-{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=name)
        return name

    def storages(self, bucket: str) -> dict[str, Any]:
        """Return STORAGES with an alias that keeps its files in the bucket."""
        return {
            ALIAS: {
                "BACKEND": "storages.backends.s3.S3Storage",
                "OPTIONS": {
                    "bucket_name": bucket,
                    "endpoint_url": self.url,
                    "access_key": "test",
                    "secret_key": "test",
                    "region_name": "us-east-1",
                    "client_config": _config(),
                },
            }
        }

    def end(self) -> None:
        """End the server."""
        self.process.kill()
        self.process.wait()

    def _access(self) -> dict[str, str]:
        return {
            "endpoint_url": self.url,
            "region_name": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run a server that prints into the folder."""
    log = folder / "s3.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        found = wait_until(lambda: _url(process, log), message=log.read_text)
        yield S3Server(url=found, process=process)
    finally:
        process.kill()
        process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str | None:
    text = log.read_text()
    assert process.poll() is None, f"the server ended:\n{text}"
    found = _RUNNING.search(text)
    return found[1] if found else None


def _config() -> Config:
    """Return settings of a client that does not try for long."""
    return Config(
        s3={"addressing_style": "path"},
        retries={"total_max_attempts": 1},
        connect_timeout=30,
        read_timeout=60,
    )
