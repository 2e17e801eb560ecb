"""What does a worker know and start of its host?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from buildqueue.executors import host, services
from tests.support.localhost import local_backend


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, settings: Any) -> Path:
    """Give each test a data folder of its own."""
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "DATA_DIR": tmp_path}
    return tmp_path


def test_a_host_has_one_id_and_it_is_not_the_machines() -> None:
    assert host.host_id() == host.host_id()
    assert services.capabilities() == [f"host:{host.host_id()}"]
    for file in host._MACHINE_ID_FILES:
        if file.exists():
            assert file.read_text().strip() not in host.host_id()


def test_two_installations_on_one_machine_are_two_hosts(
    settings: Any, tmp_path: Path
) -> None:
    one = host.host_id()
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "DATA_DIR": tmp_path / "other"}

    assert host.host_id() != one


def test_a_machine_without_an_id_keeps_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path
) -> None:
    monkeypatch.setattr(host, "_MACHINE_ID_FILES", (data_dir / "absent",))

    first = host.host_id()

    assert host.host_id() == first
    assert [path.name for path in data_dir.iterdir()] == ["machine_id"]


def test_without_aiohttp_no_runtime_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "find_spec", lambda name: None)

    assert services.local_runtime() is None


def test_the_runtime_is_started_once(data_dir: Path) -> None:
    command = services.local_runtime()
    assert command is not None
    argv = command.argv
    assert argv[argv.index("--root") + 1] == str(host.local_root())
    assert "--accept-unconfined" not in argv
    key = command.env["BUILDQUEUE_RUNTIME_KEY"]
    assert key
    assert key not in " ".join(argv)
    assert key not in repr(command)

    with local_backend(data_dir / "local"):
        assert services.local_runtime() is None
