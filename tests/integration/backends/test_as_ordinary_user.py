"""Do the backends keep their promises for an ordinary user, too?

Root runs the other tests of this folder once more in a process without any right, from a
copy that such a user can read. An ordinary user has run them already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buildqueue.backends.interpreters import reachable_python
from buildqueue.backends.users import usable_range

REPOSITORY = Path(__file__).parents[3]
REPEATED = ("test_confinement.py", "test_local_builder.py", "test_processes.py")
# Of the builder's, those that depend on who runs them: each takes seconds.
SELECTED = (
    "confinement or processes or requirements_are_installed or cannot_change or reused "
    "or dead_build or removal or replaces"
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs this")


@pytest.fixture
def copy(reachable: Path) -> Path:
    """The code and these tests alone: no settings, no database."""
    target = reachable / "copy"
    shutil.copytree(REPOSITORY / "buildqueue", target / "buildqueue")
    (target / "tests/integration/backends").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "tests/support", target / "tests/support")
    here = Path(__file__).parent
    for name in ("__init__.py", "conftest.py", *REPEATED):
        shutil.copy(here / name, target / "tests/integration/backends")
    for folder in ("tests", "tests/integration"):
        (target / folder / "__init__.py").touch()
    (target / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return target


def test_the_same_holds_for_an_ordinary_user(copy: Path, reachable: Path) -> None:
    usable = usable_range()
    assert usable is not None
    uid = sum(usable) + 1
    python = reachable_python(uid=uid, copies=reachable / "copies")
    home = reachable / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "TMPDIR": str(home),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(python), *arguments],
            cwd=copy,
            env=environment,
            user=uid,
            group=uid,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    if run("-c", "import pytest").returncode:
        pytest.skip(f"{python} cannot import the packages of this environment")

    options = ("-q", "-p", "no:cacheprovider", "-p", "no:django", "-k", SELECTED)
    done = run("-m", "pytest", *options, "--import-mode=importlib", "tests")

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert " passed" in done.stdout
