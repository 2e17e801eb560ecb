"""Where are a replica's output and exit file, and for how long are they kept?

As long as its instance is known, and then until a few later ones have come: a failed
deploy can be looked into afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from buildqueue.backends.localruntime.state import ReplicaKey

PAST_KEPT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folders of all replicas: below their instance's, below its workload's."""

    root: Path

    def of(self, key: ReplicaKey) -> Path:
        """Return the replica's folder."""
        return self.root / key.workload_id / key.instance_id / str(key.number)

    def replicas(self, workload_id: str, instance_id: str) -> list[Path]:
        """Return the folders of all replicas the instance has had, by their number."""
        found = (self.root / workload_id / instance_id).glob("*/")
        return sorted(found, key=lambda folder: int(folder.name))

    def prune(self, workload_id: str, known: Container[str]) -> None:
        """Remove the folders of long past instances."""
        every = (self.root / workload_id).glob("*/")
        past = [folder for folder in every if folder.name not in known]
        past.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in past[PAST_KEPT:]:
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self, workload_id: str) -> None:
        """Remove all of the workload; absent is fine."""
        shutil.rmtree(self.root / workload_id, ignore_errors=True)
