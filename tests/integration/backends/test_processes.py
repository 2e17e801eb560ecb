"""Does a command end with its time, its canceler or its reader, and leave nobody?"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from buildqueue.backends.launching import LaunchPlan
from buildqueue.backends.processes import MAX_LINE_BYTES, is_piece, run_command
from buildqueue.exceptions import Cancelled, Unavailable
from tests.support.waiting import wait_until

# One that ignores TERM, with a child in its group and a mark to find both by.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
print(os.getpid(), flush=True)
time.sleep(1000)
"""


def python(script: str) -> LaunchPlan:
    return LaunchPlan(
        argv=[sys.executable, "-I", "-S", "-c", script], env={}, cwd="/", name="script"
    )


def run(script: str, **options: object) -> tuple[int, list[str]]:
    lines: list[str] = []
    code = run_command(
        python(script),
        lines.append,
        **{"timeout_seconds": 60.0, **options},  # type: ignore[arg-type]
    )
    return code, lines


def is_gone(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_both_outputs_come_in_order_and_the_code_is_returned() -> None:
    script = (
        "import os, sys\n"
        "for n in range(5): os.write(1 + n % 2, f'line {n}\\n'.encode())\n"
        "os.write(1, b'no end'); sys.exit(7)"
    )

    assert run(script) == (7, [*(f"line {n}" for n in range(5)), "no end"])


def test_a_signal_is_a_negative_code() -> None:
    assert run("import os; os.kill(os.getpid(), 9)") == (-signal.SIGKILL, [])


def test_the_input_is_empty_and_the_environment_as_planned() -> None:
    script = "import os, sys; print(repr(sys.stdin.read()), 'PATH' in os.environ)"

    assert run(script) == (0, ["'' False"])


def test_other_encodings_and_line_ends_are_made_readable() -> None:
    script = r"import os; os.write(1, b'caf\xe9\r\n\n\xf0\x9f\x90\x8d\n')"

    assert run(script)[1] == ["caf\ufffd", "", "\U0001f40d"]


def test_a_long_line_comes_in_pieces() -> None:
    size = MAX_LINE_BYTES * 2 + 10

    _, lines = run(f"import os; os.write(1, b'x' * {size} + b'\\nnext\\n')")

    assert max(len(line) for line in lines) <= MAX_LINE_BYTES
    assert "".join(lines[:-1]) == "x" * size
    assert lines[-1] == "next"


def test_a_long_line_is_cut_between_characters_and_its_pieces_are_known() -> None:
    size = MAX_LINE_BYTES // 2 + 10

    _, lines = run(
        f"import os; os.write(1, ('x' + 'é' * {size} + '\\nnext\\n').encode())"
    )

    assert "".join(lines[:-1]) == "x" + "é" * size
    assert [is_piece(line) for line in lines] == [True, False, False]


def test_output_beyond_the_bound_is_dropped_and_the_command_goes_on() -> None:
    script = "for n in range(100_000): print('x' * 99)\nraise SystemExit(4)"

    code, lines = run(script, max_output_bytes=100_000)

    assert code == 4
    assert len(lines) <= 1002
    assert lines[-1] == "[output beyond 100000 bytes is dropped]"


def test_the_deadline_ends_the_whole_group() -> None:
    pids: list[int] = []

    with pytest.raises(Unavailable, match="script did not end within 2 s") as caught:
        run_command(
            python(STUBBORN),
            lambda line: pids.append(int(line)),
            timeout_seconds=2,
            grace_seconds=0.1,
        )

    assert caught.value.code == "command_timed_out"
    assert len(pids) == 2
    wait_until(lambda: all(map(is_gone, pids)), message=pids)


def test_a_cancel_ends_the_whole_group() -> None:
    pids: list[int] = []

    with pytest.raises(Cancelled):
        run_command(
            python(STUBBORN),
            lambda line: pids.append(int(line)),
            timeout_seconds=60,
            grace_seconds=0.1,
            cancelled=lambda: len(pids) == 2,
        )

    wait_until(lambda: all(map(is_gone, pids)), message=pids)


def test_an_exception_of_the_reader_ends_the_whole_group() -> None:
    pids: list[int] = []

    def read(line: str) -> None:
        pids.append(int(line))
        if len(pids) == 2:
            raise KeyError("the reader failed")

    with pytest.raises(KeyError, match="the reader failed"):
        run_command(python(STUBBORN), read, timeout_seconds=60, grace_seconds=0.1)

    wait_until(lambda: all(map(is_gone, pids)), message=pids)


def test_a_termination_is_tried_before_the_kill(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    script = (
        "import os, signal, time\n"
        f"def end(*_): open({str(witness)!r}, 'w').close(); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "os.write(1, b'ready\\n')\n"
        "time.sleep(1000)"
    )
    ready = threading.Event()

    with pytest.raises(Cancelled):
        run_command(
            python(script),
            lambda line: ready.set(),
            timeout_seconds=60,
            grace_seconds=60,
            cancelled=ready.is_set,
        )

    assert witness.exists()


def test_a_child_that_stays_behind_does_not_hold_the_call() -> None:
    script = (
        "import os, time\n"
        "if os.fork() == 0: print(os.getpid(), flush=True); time.sleep(1000)\n"
        "time.sleep(0.5)"
    )

    code, lines = run(script)

    assert code == 0
    wait_until(lambda: is_gone(int(lines[0])), message=lines)


def test_a_stray_that_writes_for_ever_does_not_hold_the_call() -> None:
    script = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); print(os.getpid(), flush=True)\n"
        "    while True: os.write(1, b'x' * 99 + b'\\n')\n"
        "import time; time.sleep(0.5)"
    )

    code, lines = run(script, max_output_bytes=1000)

    assert code == 0
    wait_until(lambda: is_gone(int(lines[0])), message=lines)


def test_a_command_that_closes_its_output_is_waited_for() -> None:
    script = "import os, time; os.close(1); os.close(2); time.sleep(0.5); os._exit(5)"

    assert run(script) == (5, [])


@pytest.mark.parametrize(
    "plan",
    [
        LaunchPlan(argv=["/absent/program"], env={}, cwd="/"),
        LaunchPlan(argv=[sys.executable], env={}, cwd="/absent/folder"),
    ],
)
def test_a_command_that_cannot_start_is_told_by_name(plan: LaunchPlan) -> None:
    with pytest.raises(Unavailable, match="could not be started") as caught:
        run_command(plan, lambda line: None, timeout_seconds=60)

    assert caught.value.code == "command_not_started"


def test_no_descriptor_is_left_open() -> None:
    before = sorted(os.listdir("/proc/self/fd"))

    run("print(1)")

    assert sorted(os.listdir("/proc/self/fd")) == before
