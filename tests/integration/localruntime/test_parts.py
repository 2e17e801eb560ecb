"""Do the parts keep their word: identities, logs, the state file, the backoff?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from buildqueue.backends.base import Resources
from buildqueue.backends.localruntime.identity import ProcessIdentity, entry_of
from buildqueue.backends.localruntime.logs import BoundedLog, tail
from buildqueue.backends.localruntime.settings import Timing
from buildqueue.backends.localruntime.state import (
    Instance,
    Replica,
    Store,
    Workload,
)
from buildqueue.exceptions import Unavailable
from tests.integration.localruntime.hosts import identity
from tests.support.waiting import wait_until


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])

    wait_until(lambda: ProcessIdentity.of(process.pid) is None, message="its end")

    assert entry_of(process.pid) is not None
    process.wait()
    assert entry_of(process.pid) is None


def test_a_process_whose_first_thread_ended_is_alive() -> None:
    script = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "print('ready', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(
            lambda: b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes(),
            message="the first thread to end",
        )

        assert identity(process.pid).alive()
        process.kill()


def test_an_identity_differs_from_a_later_one_with_its_pid() -> None:
    own = identity(1)
    earlier = ProcessIdentity(
        pid=own.pid, start_time=own.start_time - 1, boot_id=own.boot_id
    )

    assert own.alive()
    assert not earlier.alive()
    assert earlier.open() is None


def test_a_log_keeps_the_last_lines_within_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = BoundedLog(path, limit=1000)
    for number in range(500):
        log.write(f"line {number}\n".encode())
    log.close()

    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 2000
    assert tail(path, 3) == ["line 497", "line 498", "line 499"]
    assert len(tail(path, 120)) == 120


@pytest.mark.parametrize("count", [0, -5])
def test_a_tail_of_nothing_is_empty(tmp_path: Path, count: int) -> None:
    path = tmp_path / "output.log"
    path.write_text("one\ntwo\n")

    assert tail(path, count) == []
    assert tail(tmp_path / "absent", 5) == []


def test_the_state_survives_as_it_was_put(tmp_path: Path) -> None:
    instance = Instance(
        instance_id="first",
        reference="local:agent/1",
        sealed_env="sealed",
        wanted=2,
        resources=Resources(memory_mb=64, cpus=0.5),
        replicas=(Replica(number=0, port=20_001, keeper=identity(1)),),
    )
    workload = Workload(workload_id="agent", port=20_000).with_instance(instance)
    Store(tmp_path / "state.json").put(workload)

    found = Store(tmp_path / "state.json")

    assert found.get("agent") == workload
    assert found.ports() == {20_000, 20_001}
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600


def test_a_change_that_cannot_be_written_did_not_happen(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.json")
    before = store.put(Workload(workload_id="agent", port=20_000))
    (tmp_path / "state.json.new").mkdir()

    with pytest.raises(Unavailable) as caught:
        store.put(Workload(workload_id="agent", port=20_001))

    assert caught.value.code == "state_not_saved"
    assert store.get("agent") == before
    assert Store(tmp_path / "state.json").get("agent") == before


def test_the_pause_before_a_restart_doubles_up_to_its_bound() -> None:
    timing = Timing()

    pauses = [timing.backoff(failures) for failures in range(8)]

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert timing.backoff(10_000) == 60


def test_no_part_of_it_imports_django() -> None:
    script = (
        "import sys\n"
        "from buildqueue.backends.localruntime import __main__, client, health, service\n"
        "sys.exit('django' in sys.modules)\n"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_keeper_stays_small() -> None:
    script = (
        "import sys\n"
        "from buildqueue.backends.localruntime import keeper\n"
        "large = {'asyncio', 'aiohttp', 'cryptography', 'django'}\n"
        "sys.exit(bool(large & set(sys.modules)))\n"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
