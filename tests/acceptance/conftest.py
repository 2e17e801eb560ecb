"""What do the acceptance tests share? Real workers, and questions to the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Workers
from tests.support.servers import Server, instead_of_usual, own_server

from .hosting import Host, host_in


@pytest.fixture
def workers(committed: None, tmp_path: Path) -> Iterator[Workers]:
    """Start real workers; at the end they are killed, and nothing may be left."""
    made = Workers(tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def here(workers: Workers, tmp_path: Path) -> Iterator[Host]:
    """Have a host in a folder of its own, on which workers run agents."""
    with host_in(workers, tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def _one_server(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    with django_db_blocker.unblock(), own_server() as made:
        yield made


@pytest.fixture
def server(_one_server: Server, django_db_blocker: Any) -> Iterator[Server]:
    """Have a server of their own in place of the suite's, for the test and its workers.

    Ask for it before `workers`, which clears what the test has left in it.
    """
    with django_db_blocker.unblock():
        _one_server.ensure_running()
        with instead_of_usual(_one_server.settings):
            yield _one_server
