"""What do the acceptance tests share? Real workers, and questions to the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Workers


@pytest.fixture
def workers(committed: None, tmp_path: Path) -> Iterator[Workers]:
    """Start real workers; at the end they are killed, and nothing may be left."""
    made = Workers(tmp_path)
    try:
        yield made
    finally:
        made.end()
