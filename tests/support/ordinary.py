"""How does root run tests once more as an ordinary user? In a process without any right.

From a copy of the code that such a user can read, without settings and database. An
ordinary user has run the tests already, and skips what asks for this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from buildqueue.backends.interpreters import reachable_python
from buildqueue.backends.users import usable_range

REPOSITORY = Path(__file__).parents[2]


def copy_tests(reachable: Path, folder: str, names: Sequence[str]) -> Path:
    """Return a copy of the code and of these tests below a folder others can reach."""
    target = reachable / "copy"
    shutil.copytree(REPOSITORY / "buildqueue", target / "buildqueue")
    shutil.copytree(REPOSITORY / "tests/support", target / "tests/support")
    (target / folder).mkdir(parents=True)
    for name in names:
        found = REPOSITORY / folder / name
        if found.is_dir():
            shutil.copytree(found, target / folder / name)
        else:
            shutil.copy(found, target / folder)
    for part in Path(folder).parents:
        (target / part / "__init__.py").touch()
    (target / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return target


def run_tests(copy: Path, reachable: Path, *selected: str) -> None:
    """Run the copied tests as a user without any right; fail when one fails."""
    usable = usable_range()
    assert usable is not None
    uid = sum(usable) + 1
    python = reachable_python(uid=uid, copies=reachable / "copies")
    home = reachable / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    python = _environment(python, reachable / "venv")
    environment = {
        "PATH": os.environ["PATH"],
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
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:django", *selected)
    done = run("-m", "pytest", *options, "--import-mode=importlib", "tests")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert " passed" in done.stdout


def _environment(python: Path, folder: Path) -> Path:
    """Return the interpreter of an environment with the packages of this one.

    What the tests start in turn finds them, too, whatever it has of their environment.
    """
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "these.pth").write_text("\n".join(packages))
    for at, _, _ in os.walk(folder):
        Path(at).chmod(0o755)
    return folder / "bin/python"
