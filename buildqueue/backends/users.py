"""How does root keep workloads apart? By a user and a group of its own for each.

The user has no login, no supplementary group and no way to gain privileges; it reads
what every user of the machine may read, and the trees that were granted to it.
"""

from __future__ import annotations

import hashlib
import pwd
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from buildqueue.backends.launching import (
    LaunchPlan,
    Limits,
    with_prelude,
    wrapped_environment,
)
from buildqueue.backends.trees import give_to_user, share_with_group
from buildqueue.exceptions import Unavailable

# Unused by distributions, containers and directory services; the second fits into a
# container whose user namespace maps only 65536 ids.
UID_RANGES = ((1_900_000_000, 200_000_000), (20_000, 40_000))
# The end of a range is for probes, and for stepping past the ids of logins.
_RESERVED = 1000
_PASSES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConfinement:
    """For root: a user and group of its own for every workload id."""

    python: Path
    first_uid: int
    uids: int
    mode: ClassVar[Literal["uid"]] = "uid"

    def uid(self, workload_id: str) -> int:
        """Return the workload's user and group id: stable, and never a login's."""
        number = int.from_bytes(hashlib.sha256(workload_id.encode()).digest()[:8])
        uid = self.first_uid + number % self.uids
        while _is_login(uid):
            uid += 1
        return uid

    def command(
        self,
        argv: Sequence[str],
        *,
        workload_id: str,
        cwd: Path,
        env: Mapping[str, str],
        readable: Sequence[Path],
        writable: Sequence[Path],
        limits: Limits | None = None,
        mounts: Mapping[str, Path] | None = None,
    ) -> LaunchPlan:
        uid = self.uid(workload_id)
        return LaunchPlan(
            name=Path(argv[0]).name,
            argv=with_prelude(
                self.python,
                argv,
                limits=limits or Limits(),
                no_new_privs=True,
                unwrap=True,
            ),
            env=wrapped_environment(env, writable),
            cwd=str(cwd),
            user=uid,
            group=uid,
            extra_groups=[],
        )

    def grant_read(self, path: Path, workload_id: str) -> None:
        share_with_group(path, self.uid(workload_id))

    def grant_write(self, path: Path, workload_id: str) -> None:
        give_to_user(path, self.uid(workload_id))

    def end_strays(self, workload_id: str) -> None:
        uid = self.uid(workload_id)
        for _ in range(_PASSES):
            if not any(_processes_of(uid)):
                return
            # As the user itself, to all it may signal: the kernel does that in one go,
            # so a process that keeps forking cannot run ahead of it.
            subprocess.run(
                [str(self.python), "-I", "-S", "-c", "import os; os.kill(-1, 9)"],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                user=uid,
                group=uid,
                extra_groups=[],
                check=False,
            )
        raise Unavailable(
            "strays_survive", f"processes of user {uid} ({workload_id}) cannot be ended"
        )


def usable_range() -> tuple[int, int] | None:
    """Return (first uid, number) of a range this process can switch to, or None."""
    for first, count in UID_RANGES:
        if _are_mapped(first, count):
            return first, count - _RESERVED
    return None


def _is_login(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _are_mapped(first: int, count: int) -> bool:
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    spans = [(int(line.split()[0]), int(line.split()[2])) for line in lines]
    return any(a <= first and first + count <= a + size for a, size in spans)


def _processes_of(uid: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue
        real = next(line for line in status.splitlines() if line.startswith("Uid:"))
        state = next(line for line in status.splitlines() if line.startswith("State:"))
        if int(real.split()[1]) == uid and state.split()[1] != "Z":
            yield int(entry.name)
