"""How much memory, processor and processes may one replica take, all it forks included?

Where the kernel's control groups can be written to, as for root on most hosts, a group
of its own holds each replica that was given a bound. The keeper steps into it, launches
and steps out again, so the program is in it from its first instruction on and the
keeper is not. Groups of version 1 and 2 are known. What was tried and did not work is
not offered: `detect` has made a group.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

from buildqueue.backends.base import Resources

CONTROLLERS = ("memory", "cpu", "pids")
MOUNT = Path("/sys/fs/cgroup")

_PARENT = "buildqueue"
_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1000
# Which file tells of ended programs, in each version.
_OOM_FILES = ("memory.events", "memory.oom_control")

Settings: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One control group to be in, and what is written into it first."""

    folder: str
    settings: Settings

    @classmethod
    def of(cls, given: dict[str, object]) -> Self:
        """Return the group that JSON made a mapping of."""
        settings = given["settings"]
        assert isinstance(settings, list)
        return cls(folder=str(given["folder"]), settings=tuple(map(tuple, settings)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """What of the control groups this process can use."""

    mount: Path = MOUNT
    unified: bool = False
    controllers: frozenset[str] = frozenset()

    def plan(self, name: str, resources: Resources) -> list[Group]:
        """Return the groups for a replica of this name: of each bound there is."""
        asked = {
            "memory": resources.memory_mb and _memory(resources.memory_mb),
            "cpu": resources.cpus and _cpu(resources.cpus),
            "pids": resources.processes and _pids(resources.processes),
        }
        wanted = [key for key in CONTROLLERS if key in self.controllers and asked[key]]
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        made: dict[str, Settings] = {}
        for key in wanted:
            first, second = asked[key] or ((), ())
            folder = self._folder(key, digest)
            made[folder] = made.get(folder, ()) + (second if self.unified else first)
        return [Group(folder=folder, settings=each) for folder, each in made.items()]

    def _folder(self, controller: str, name: str) -> str:
        parts = (_PARENT, name) if self.unified else (controller, _PARENT, name)
        return str(self.mount.joinpath(*parts))


def detect(mount: Path = MOUNT) -> Groups:
    """Return what can be used here, having tried it."""
    unified = (mount / "cgroup.controllers").is_file()
    usable = frozenset(
        controller
        for controller in CONTROLLERS
        if _works(mount, controller, unified=unified)
    )
    return Groups(mount=mount, unified=unified, controllers=usable)


@contextmanager
def within(groups: Sequence[Group]) -> Iterator[None]:
    """Be in the groups while the block runs; what it starts stays in them."""
    entered: list[Path] = []
    try:
        for group in groups:
            folder = Path(group.folder)
            home = _home(folder)
            folder.mkdir(parents=True, exist_ok=True)
            for file, value in group.settings:
                _write(folder / file, value)
            _write(folder / "cgroup.procs", "0")
            entered.append(home)
        yield
    finally:
        for home in entered:
            _write(home / "cgroup.procs", "0")


def ended_for_memory(groups: Sequence[Group]) -> int:
    """Return how often the kernel ended a program of the groups for its memory."""
    for group in groups:
        for name in _OOM_FILES:
            with suppress(OSError):
                lines = Path(group.folder, name).read_text("ascii").splitlines()
                counts = dict(line.split()[:2] for line in lines)
                return int(counts.get("oom_kill", 0))
    return 0


def remove(groups: Sequence[Group]) -> None:
    """Remove the groups once nothing runs in them; absent is fine."""
    for group in groups:
        with suppress(OSError):
            os.rmdir(group.folder)


def _memory(megabytes: int) -> tuple[Settings, Settings]:
    size = str(megabytes * 1024 * 1024)
    first = (("memory.limit_in_bytes", size), ("?memory.memsw.limit_in_bytes", size))
    return first, (
        ("memory.max", size),
        ("?memory.swap.max", "0"),
        ("?memory.oom.group", "1"),
    )


def _cpu(cpus: float) -> tuple[Settings, Settings]:
    quota = max(int(cpus * _PERIOD_US), _LEAST_QUOTA_US)
    first = (("cpu.cfs_period_us", str(_PERIOD_US)), ("cpu.cfs_quota_us", str(quota)))
    return first, (("cpu.max", f"{quota} {_PERIOD_US}"),)


def _pids(processes: int) -> tuple[Settings, Settings]:
    setting = (("pids.max", str(processes)),)
    return setting, setting


def _works(mount: Path, controller: str, *, unified: bool) -> bool:
    parent = mount / _PARENT if unified else mount / controller / _PARENT
    probe = parent / f"probe-{os.getpid()}"
    try:
        if unified:
            _write(mount / "cgroup.subtree_control", f"+{controller}")
        elif not (mount / controller / "cgroup.procs").is_file():
            return False
        parent.mkdir(exist_ok=True)
        if unified:
            _write(parent / "cgroup.subtree_control", f"+{controller}")
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def _home(folder: Path) -> Path:
    """Return the group this process is in, of the hierarchy the folder belongs to."""
    mount = folder.parent.parent
    for line in Path("/proc/self/cgroup").read_text("ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if (mount.name in controllers.split(",")) or (
            not controllers and (mount / "cgroup.controllers").is_file()
        ):
            return mount / path.lstrip("/")
    return mount


def _write(path: Path, value: str) -> None:
    optional = path.name.startswith("?")
    try:
        path.with_name(path.name.removeprefix("?")).write_text(value, "ascii")
    except OSError:
        if not optional:  # a kernel without swap accounting has no such file
            raise
