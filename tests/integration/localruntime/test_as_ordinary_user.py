"""Does the runtime keep its promises for an ordinary user, whose agents are in namespaces?

Root runs the attack and what depends on the confinement once more as such a user.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildqueue.backends.trees import remove_tree
from tests.support.ordinary import copy_tests, run_tests

REPEATED = (
    *("__init__.py", "conftest.py", "hosts.py", "programs", "test_attack.py"),
    *("test_replicas.py", "test_resources.py", "test_secrets.py", "test_volumes.py"),
)
SELECTED = (
    "test_attack or test_volumes or test_secrets or memory_beyond or reboot "
    "or no_request_fails"
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs this")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder every user can pass through: pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="buildqueue-test-"))
    folder.chmod(0o711)
    yield folder
    remove_tree(folder)


def test_the_same_holds_for_an_ordinary_user(reachable: Path) -> None:
    copy = copy_tests(reachable, "tests/integration/localruntime", REPEATED)

    run_tests(copy, reachable, "-k", SELECTED)
