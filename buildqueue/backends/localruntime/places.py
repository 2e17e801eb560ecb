"""Where are the runtime's files, and how is its socket reached by a path of any length?

Everything is in `<root>/runtime`, which only the runtime's own user can enter; bundles
and scratch folders, which instances have to reach, are beside it. A socket's path must
be short, so it is named through an open descriptor of its folder.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from buildqueue.backends.confinement import private_root

_SOCKET_NAME = "control.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The files of one runtime."""

    root: Path  # of bundles and scratch folders: the local builder's root

    @classmethod
    def below(cls, root: Path) -> Self:
        """Return the places for this root, creating the private folder."""
        places = cls(root=private_root(root))
        places.runtime.mkdir(mode=0o700, exist_ok=True)
        places.runtime.chmod(0o700)
        return places

    @property
    def runtime(self) -> Path:
        """Return the folder that no instance can enter."""
        return self.root / "runtime"

    @property
    def lock(self) -> Path:
        """Return the file whose lock says that the daemon lives."""
        return self.runtime / "daemon.lock"

    @property
    def log(self) -> Path:
        """Return the daemon's own log."""
        return self.runtime / "daemon.log"

    @property
    def state(self) -> Path:
        """Return the state file."""
        return self.runtime / "state.json"

    @property
    def instances(self) -> Path:
        """Return the folder of the instances' outputs."""
        return self.runtime / "instances"

    def listen(self) -> socket.socket:
        """Return the listening control socket; only the holder of the lock may ask."""
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        (self.runtime / _SOCKET_NAME).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with self._short_path() as path:
                control.bind(path)
        finally:
            os.umask(before)
        control.listen(128)
        return control

    def connect(self, timeout: float) -> socket.socket:
        """Return a connection to the daemon; raises OSError when there is none."""
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.settimeout(timeout)
        try:
            with self._short_path() as path:
                control.connect(path)
        except OSError:
            control.close()
            raise
        return control

    @contextmanager
    def _short_path(self) -> Iterator[str]:
        folder = os.open(self.runtime, os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{folder}/{_SOCKET_NAME}"
        finally:
            os.close(folder)
