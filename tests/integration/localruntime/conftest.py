"""What does a test of the runtime start from? A host with a daemon, ended afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.localruntime.hosts import Host, own_ports


@contextmanager
def new_host(worker_id: str) -> Iterator[Host]:
    # Not pytest's own folder: no other user may pass through it, as workloads must.
    root = Path(tempfile.mkdtemp(prefix="buildqueue-"))
    root.chmod(0o711)
    host = Host(root=root, ports=own_ports(worker_id))
    try:
        yield host
    finally:
        host.close()


@pytest.fixture
def idle_host(worker_id: str) -> Iterator[Host]:
    """A root on which no daemon runs yet."""
    with new_host(worker_id) as host:
        yield host


@pytest.fixture(scope="module")
def shared_host(worker_id: str) -> Iterator[Host]:
    """A running daemon for tests that leave nothing behind."""
    with new_host(worker_id) as host:
        host.serve()
        yield host


@pytest.fixture
def host(idle_host: Host) -> Host:
    """A root on which a daemon runs."""
    idle_host.serve()
    return idle_host
