"""What is put in order by itself? What nobody needs any more is removed: sources,
artifacts, uploads. Jobs that wait for a host that is gone are freed.

Duties of every worker, each on its own host. What is removed is looked for once an hour
at most: it costs more than it frees in between. What a rollback needs stays.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from ..builds import artifacts, losthosts, sourcepruning
from ..builds.submission import taking
from . import base, host

EVERY_SECONDS = 3600.0
# What is younger may be of a build whose rows are still to come.
ARTIFACT_AGE_SECONDS = 3600.0

UPLOAD_AGE_SECONDS = 24 * 3600.0

_due: dict[str, float] = {}


def prune_sources() -> int:
    """Remove stored sources that no build needs; return how many."""
    return _hourly("sources", sourcepruning.prune)


def prune_artifacts() -> int:
    """Remove this host's artifacts that no version needs; return how many."""
    return _hourly("artifacts", remove_unneeded)


def remove_unneeded(*, older_than_seconds: float = ARTIFACT_AGE_SECONDS) -> int:
    """Remove old artifacts that nobody needs, and what builds that died have left.

    Dying half-way leaves the rest for the next time. Artifacts are listed before their
    use is asked for, so one that comes to be needed meanwhile is younger.
    """
    if not host.in_use():
        return 0
    builder = base.builder()
    targets = {name: found for name in builder.targets() if (found := _uuid(name))}
    busy = artifacts.busy(targets.values())  # first: what ends meanwhile is needed then
    keep = artifacts.needed(targets.values())
    return sum(
        builder.clean(name, keep=keep, older_than_seconds=older_than_seconds)
        for name, target in targets.items()
        if target not in busy
    )


def free_jobs_of_lost_hosts() -> int:
    """Let others do what waits for a host that is gone; return how many jobs."""
    return losthosts.free()


def remove_left_uploads() -> int:
    """Remove the temporary folders of uploads whose process was killed."""
    return _hourly("uploads", _remove_left_uploads)


def _remove_left_uploads() -> int:
    from ..backends.trees import remove_tree

    found = Path(tempfile.gettempdir()).glob(f"{taking.PREFIX}*")
    left = [
        folder
        for folder in found
        if base.is_work_folder_old(folder, seconds=UPLOAD_AGE_SECONDS)
        and folder.stat(follow_symlinks=False).st_uid == os.geteuid()
        and not folder.is_symlink()
    ]
    for folder in left:
        remove_tree(folder)
    return len(left)


def _hourly(name: str, act: Callable[[], int]) -> int:
    if time.monotonic() < _due.get(name, 0.0):
        return 0
    _due[name] = time.monotonic() + EVERY_SECONDS
    return act()


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
