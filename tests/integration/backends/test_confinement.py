"""Does untrusted code really not see the worker? Tried by code that looks for it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from buildqueue.backends import confinement as module
from buildqueue.backends.confinement import Confinement, detect, private_root
from buildqueue.backends.users import UserConfinement
from buildqueue.exceptions import Rejected
from tests.support.waiting import wait_until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can change users")


def start(
    confinement: Confinement,
    argv: Sequence[str],
    *,
    workload: str = "workload",
    env: Mapping[str, str] | None = None,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
) -> subprocess.Popen[str]:
    plan = confinement.command(
        argv,
        workload_id=workload,
        cwd=Path("/"),
        env=env or {},
        readable=readable,
        writable=writable,
    )
    return subprocess.Popen(
        plan.argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **plan.popen_kwargs(),
    )


def output(confinement: Confinement, script: str, **options: object) -> str:
    argv = [str(confinement.python), "-I", "-c", script]
    process = start(confinement, argv, **options)  # type: ignore[arg-type]
    return process.communicate(timeout=60)[0]


def test_the_environment_is_what_was_given_and_four_more(
    confinement: Confinement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    # Python adds LC_CTYPE and bubblewrap PWD where they are missing.
    given = {"LC_CTYPE": "C.UTF-8", "PWD": "/", "A": "1"}

    found = output(confinement, "import os; print(*sorted(os.environ))", env=given)

    assert found.split() == sorted([*given, "HOME", "LANG", "PATH", "TMPDIR"])


def test_what_was_given_wins_over_the_defaults(confinement: Confinement) -> None:
    script = "import os; print(os.environ['HOME'], os.environ['PATH'])"

    assert output(confinement, script, env={"HOME": "/h", "PATH": "/p"}) == "/h /p\n"


@pytest.mark.parametrize("name", ["environ", "maps", "mem", "fd/0", "cwd/x", "root/x"])
def test_the_workers_process_cannot_be_read(
    name: str, confinement: Confinement
) -> None:
    path = f"/proc/{os.getpid()}/{name}"
    script = (
        "try:\n"
        f"    open({path!r}).read()\n"
        "except (PermissionError, FileNotFoundError) as error:\n"
        "    print(type(error).__name__)"
    )
    # Absent is as good as closed, but only if the process itself is not to be seen.
    expected = {"uid": "PermissionError", "namespace": "FileNotFoundError"}

    assert output(confinement, script) == f"{expected[confinement.mode]}\n"


def test_the_workers_files_cannot_be_read(
    confinement: Confinement, reachable: Path
) -> None:
    secret = reachable / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)

    found = output(confinement, f"print(open({str(secret)!r}).read())")

    assert found.splitlines()[-1].startswith(("PermissionError", "FileNotFoundError"))


def test_a_database_socket_cannot_be_reached(
    confinement: Confinement, reachable: Path
) -> None:
    folder = reachable / "sockets"
    folder.mkdir(mode=0o700)
    path = str(folder / ".s.PGSQL.5432")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"

        found = output(confinement, script)

    assert found.splitlines()[-1].startswith(("PermissionError", "FileNotFoundError"))


def test_a_readable_tree_can_be_read_and_not_changed(
    confinement: Confinement, reachable: Path
) -> None:
    tree = reachable / "tree"
    tree.mkdir()
    (tree / "file").write_text("content")
    confinement.grant_read(tree, "workload")
    path = str(tree / "file")

    read = output(confinement, f"print(open({path!r}).read())", readable=[tree])
    wrote = output(confinement, f"open({path!r}, 'w')", readable=[tree])
    made = output(confinement, f"open({path + '2'!r}, 'w')", readable=[tree])

    assert read == "content\n"
    assert "Error" in wrote
    assert "Error" in made
    assert (tree / "file").read_text() == "content"


def test_a_writable_tree_is_home_and_can_be_changed(
    confinement: Confinement, reachable: Path
) -> None:
    tree = reachable / "tree"
    tree.mkdir()
    confinement.grant_write(tree, "workload")
    script = "import os; open(os.environ['HOME'] + '/file', 'w').write('1')"

    output(confinement, script, writable=[tree])

    assert (tree / "file").read_text() == "1"
    assert (tree / "file").stat().st_mode & 0o077 == 0


@as_root
def test_another_workloads_tree_cannot_be_read(reachable: Path) -> None:
    confinement = detect(accept_none=False)
    tree = reachable / "tree"
    tree.mkdir()
    (tree / "file").write_text("content")
    confinement.grant_read(tree, "workload")

    script = f"print(open({str(tree / 'file')!r}).read())"

    assert "PermissionError" in output(confinement, script, workload="other")
    assert output(confinement, script, workload="workload") == "content\n"


def test_a_port_of_the_workload_can_be_reached(confinement: Confinement) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        "print(s.getsockname()[1], flush=True); s.accept()[0].sendall(b'hello')"
    )
    process = start(confinement, [str(confinement.python), "-I", "-c", script])
    assert process.stdout is not None

    port = int(process.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        assert connection.recv(10) == b"hello"

    process.communicate(timeout=60)


def test_privileges_cannot_be_gained_and_no_core_is_written(
    confinement: Confinement,
) -> None:
    script = (
        "import resource; print(open('/proc/self/status').read());"
        "print('core', resource.getrlimit(resource.RLIMIT_CORE))"
    )

    found = output(confinement, script)

    assert "NoNewPrivs:\t1" in found
    assert "core (0, 0)" in found


def test_no_open_file_is_inherited(confinement: Confinement) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        found = output(confinement, f"import os; os.write({writer}, b'x')")
    finally:
        os.close(reader)
        os.close(writer)

    assert "Bad file descriptor" in found


def test_the_workloads_environment_does_not_touch_the_launcher(
    confinement: Confinement,
) -> None:
    """The loader complains once a process that has the variable."""
    process = start(confinement, ["/bin/true"], env={"LD_PRELOAD": "/absent.so"})

    assert process.communicate(timeout=60)[0].count("/absent.so") == 1


def test_an_absent_program_ends_with_127(confinement: Confinement) -> None:
    process = start(confinement, ["no-such-program"])

    assert "cannot start no-such-program" in process.communicate(timeout=60)[0]
    assert process.returncode == 127


def test_a_termination_leaves_time_to_end_well(confinement: Confinement) -> None:
    script = (
        "import os, signal, time\n"
        "def end(*_): os.write(1, b'ended well\\n'); os._exit(3)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "os.write(1, b'ready\\n')\n"
        "while True: time.sleep(1)"
    )
    process = start(confinement, [str(confinement.python), "-I", "-c", script])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    os.killpg(process.pid, signal.SIGTERM)

    assert process.communicate(timeout=60)[0] == "ended well\n"
    assert process.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_is_told_from_an_exit_code(
    number: signal.Signals, confinement: Confinement
) -> None:
    script = f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(60)"
    argv = [str(confinement.python), "-I", "-c", script]
    plan = confinement.command(
        argv, workload_id="w", cwd=Path("/"), env={}, readable=(), writable=()
    )
    process = start(confinement, argv)
    process.communicate(timeout=60)

    assert plan.exit_code(process.returncode) == -number
    assert plan.exit_code(1) == 1


STRAY = (
    "import os, subprocess, sys\n"
    "child = subprocess.Popen(['sleep', '1000'], start_new_session=True,"
    " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    "print('ready', flush=True)\n"
    "{rest}"
)


def sleepers(mark: str) -> list[int]:
    """Return the processes `sleep 1000` whose environment has the mark."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if content(entry / "cmdline") == b"sleep\0001000\0"
        and f"MARK={mark}".encode() in content(entry / "environ").split(b"\0")
    ]


def content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def test_killing_a_namespace_ends_those_who_left_the_group(
    confinement: Confinement,
) -> None:
    if confinement.mode != "namespace":
        pytest.skip("users are ended by end_strays")
    mark = f"namespace-{os.getpid()}"
    script = STRAY.format(rest="import time; time.sleep(1000)")
    argv = [str(confinement.python), "-I", "-c", script]
    process = start(confinement, argv, env={"MARK": mark})
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    wait_until(lambda: sleepers(mark), message="the stray never came")

    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)

    wait_until(lambda: not sleepers(mark), message=lambda: sleepers(mark))
    process.stdout.close()


@as_root
def test_strays_of_a_user_are_ended_and_nobody_elses() -> None:
    confinement = detect(accept_none=False)
    one, two = (f"{name}-{os.getpid()}" for name in ("one", "two"))
    argv = [str(confinement.python), "-I", "-c", STRAY.format(rest="")]
    for workload in (one, two):
        process = start(confinement, argv, workload=workload, env={"MARK": workload})
        process.communicate(timeout=60)
    wait_until(lambda: sleepers(one) and sleepers(two), message="no strays came")
    try:
        confinement.end_strays(one)

        assert not sleepers(one)
        assert sleepers(two)
    finally:
        confinement.end_strays(two)


@as_root
def test_users_are_stable_private_and_no_logins() -> None:
    confinement = detect(accept_none=False)
    assert isinstance(confinement, UserConfinement)

    uids = {confinement.uid(f"workload-{number}") for number in range(200)}

    assert len(uids) > 195
    assert min(uids) >= 20_000
    assert confinement.uid("workload-1") == confinement.uid("workload-1")


@as_root
def test_the_workers_groups_are_not_inherited(detected: Confinement) -> None:
    before = os.getgroups()
    os.setgroups([*before, 4])
    try:
        found = output(detected, "import os; print(os.getgroups())")
    finally:
        os.setgroups(before)

    assert found == "[]\n"


@as_root
def test_a_stray_hard_link_is_not_given_away(reachable: Path) -> None:
    tree = reachable / "tree"
    tree.mkdir()
    (reachable / "secret").write_text("secret")
    os.link(reachable / "secret", tree / "mine")

    with pytest.raises(Rejected) as caught:
        detect(accept_none=False).grant_read(tree, "workload")

    assert caught.value.code == "hard_link_refused"
    assert (reachable / "secret").stat().st_uid == 0


@as_root
def test_a_setuid_bit_does_not_survive_the_hand_over(reachable: Path) -> None:
    tree = reachable / "tree"
    tree.mkdir()
    (tree / "shell").write_text("")
    (tree / "shell").chmod(0o6755)

    detect(accept_none=False).grant_read(tree, "workload")

    assert (tree / "shell").stat().st_mode & 0o7777 == 0o750


def test_where_nothing_confines_it_is_refused_unless_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_possible", lambda: iter(()))

    with pytest.raises(Rejected, match="LOCAL_ALLOW_UNCONFINED") as caught:
        detect(accept_none=False)
    accepted = detect(accept_none=True)

    assert caught.value.code == "confinement_unavailable"
    assert accepted.mode == "none"
    assert output(accepted, "import os; print('A' in os.environ)") == "False\n"


def test_a_confinement_that_does_not_work_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(module, "usable_range", lambda: None)
    monkeypatch.setattr(module, "bubblewraps", lambda: iter((broken,)))

    assert detect(accept_none=True).mode == "none"


def test_a_reachable_root_is_taken_as_it_is(reachable: Path) -> None:
    chosen = private_root(reachable / "a/b")

    assert chosen == reachable / "a/b"
    assert private_root(reachable / "a/b") == chosen


@as_root
def test_a_closed_root_is_replaced_by_a_reachable_one(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FALLBACK_ROOT", reachable / "fallback")
    closed = reachable / "closed"
    closed.mkdir(mode=0o700)

    chosen = private_root(closed / "root")

    assert chosen.parent == reachable / "fallback"
    assert chosen == private_root(closed / "root")
    assert chosen != private_root(closed / "other")


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ({"A=B": "1"}, "invalid_environment"),
        ({"": "1"}, "invalid_environment"),
        ({"A": "\0"}, "invalid_environment"),
        ({"A": "x" * 200_000}, "environment_too_large"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(
    env: dict[str, str], code: str, confinement: Confinement
) -> None:
    with pytest.raises(Rejected) as caught:
        start(confinement, ["true"], env=env)

    assert caught.value.code == code


def test_an_environment_of_several_lines_passes_whole(confinement: Confinement) -> None:
    key = "-----BEGIN KEY-----\nä\n-----END KEY-----\n"

    found = output(
        confinement, "import os; print(repr(os.environ['K']))", env={"K": key}
    )

    assert found.strip() == repr(key)


def test_secrets_are_not_in_the_command_line(confinement: Confinement) -> None:
    plan = confinement.command(
        ["true"],
        workload_id="w",
        cwd=Path("/"),
        env={"TOKEN": "s3cret"},
        readable=(),
        writable=(),
    )

    assert "s3cret" not in " ".join(plan.argv)
