"""What do the tests of backends stand on? Folders other users can reach, and the
confinements that work on this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildqueue.backends.confinement import Confinement, detect, private_root
from buildqueue.backends.interpreters import base_python
from buildqueue.backends.namespaces import NamespaceConfinement, bubblewraps
from buildqueue.backends.trees import remove_tree


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder every user can pass through: pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="buildqueue-test-"))
    folder.chmod(0o711)
    yield folder
    remove_tree(folder)


@pytest.fixture
def root(reachable: Path) -> Path:
    """The folder of bundles."""
    return private_root(reachable / "root")


@pytest.fixture(params=["detected", "namespace"])
def confinement(request: pytest.FixtureRequest) -> Confinement:
    """Each that works here: for root, the ordinary user's way as well."""
    if request.param == "detected":
        return detect(accept_none=False)
    if os.geteuid() != 0:
        pytest.skip("an ordinary user has only the one that was detected")
    return NamespaceConfinement(python=base_python(), bubblewrap=next(bubblewraps()))


@pytest.fixture
def detected() -> Confinement:
    """The one that is used here."""
    return detect(accept_none=False)
