"""How does an orchestrator see that a worker takes jobs? By a file that is there.

The file appears, whole, once the worker listens (or polls) and all its slots have come
up. It goes when a drain begins and at the end. A worker that is killed leaves it; the
next one with the same path removes it when it starts.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

logger = logging.getLogger("buildqueue.worker")


class ReadyFile:
    """The file, or nothing when none was asked for."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._there: bool | None = None  # not known: a dead worker may have left it

    def show(self) -> None:
        """Have the file there."""
        self._make(True)

    def hide(self) -> None:
        """Have it there no more."""
        self._make(False)

    def _make(self, there: bool) -> None:
        if self._path is None or there is self._there:
            return
        self._there = there
        try:
            if there:
                _write(self._path, f"{os.getpid()}\n")
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:  # the jobs are more than the sign
            logger.error("the ready file cannot be changed: %s", error)


def _write(path: Path, text: str) -> None:
    """Write a file that everybody may read, at once or not at all."""
    descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        Path(fresh).chmod(0o644)
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
