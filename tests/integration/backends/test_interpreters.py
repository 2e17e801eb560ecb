"""Can the user of a workload run the interpreter that was chosen?"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from buildqueue.backends import interpreters
from buildqueue.backends.interpreters import reachable_python
from buildqueue.backends.users import usable_range
from buildqueue.exceptions import Rejected

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="root alone has workloads of other users"
)


@pytest.fixture
def uid() -> int:
    usable = usable_range()
    assert usable is not None
    return sum(usable)


def test_the_chosen_interpreter_runs_as_an_unprivileged_user(
    uid: int, reachable: Path
) -> None:
    python = reachable_python(uid=uid, copies=reachable / "copies")

    done = subprocess.run(
        [python, "-I", "-c", "import ssl, venv; print('runs')"],
        user=uid,
        group=uid,
        extra_groups=[],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "runs\n"


def test_the_last_resort_is_a_copy_made_once(
    uid: int, reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = reachable / "copies"
    monkeypatch.setattr(
        interpreters, "_runs", lambda python, *_, **__: python.is_relative_to(copies)
    )

    first = reachable_python(uid=uid, copies=copies)
    before = first.stat().st_ino
    again = reachable_python(uid=uid, copies=copies)

    assert first.is_relative_to(copies)
    assert (again, again.stat().st_ino) == (first, before)
    assert [entry.name[:7] for entry in copies.iterdir()] == ["python-"]
    assert not list(copies.rglob("site-packages"))


def test_a_copy_is_whole_and_readable_for_others(uid: int, reachable: Path) -> None:
    python = interpreters._copied_python(reachable / "copies")
    assert python is not None

    done = subprocess.run(
        [
            python,
            "-I",
            "-S",
            "-c",
            "import sys, ssl, venv, ensurepip; print(sys.prefix)",
        ],
        user=uid,
        group=uid,
        extra_groups=[],
        # A build with a shared library looks for it where it was installed first.
        env={"LD_LIBRARY_PATH": str(python.parent.parent / "lib")},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == f"{python.parent.parent}\n", done.stderr


def test_without_any_reachable_python_it_is_refused(
    uid: int, reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "_runs", lambda *_, **__: False)
    monkeypatch.setattr(interpreters, "_copied_python", lambda _: None)

    with pytest.raises(Rejected, match="install python3") as caught:
        reachable_python(uid=uid, copies=reachable)

    assert caught.value.code == "python_unreachable"


def test_a_copy_that_was_killed_on_the_way_is_made_by_the_next(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = reachable / "copies"
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(
            Path, "rename", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        )
        interpreters._copied_python(copies)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert [folder.name[:6] for folder in copies.iterdir()] == [".copy-"]

    copied = interpreters._copied_python(copies)

    assert copied is not None
    assert copied.exists()
