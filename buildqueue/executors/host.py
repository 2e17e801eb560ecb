"""Which host is this, and where are its bundles and its local runtime?

A host is a machine and a folder: two installations on one machine have two runtimes and
must not be sent each other's jobs. The machine's own id is only ever shown hashed.
"""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from .. import conf

_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def local_root() -> Path:
    """Return the folder of bundles and of the runtime, made if it is not there."""
    from ..backends.confinement import private_root

    mark_in_use()
    return private_root(conf.get().data_path() / "local")


def mark_in_use() -> None:
    """Note that something is built or run here from now on."""
    if not (marker := _marker()).exists():
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def in_use() -> bool:
    """Tell whether anything was ever built or run here; asking makes nothing."""
    return _marker().exists()


def _marker() -> Path:
    return conf.get().data_path() / "local-in-use"


def host_id() -> str:
    """Return the id that jobs bound to this host name in `requires`."""
    named = f"{_machine_id()} {conf.get().data_path().absolute()}"
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def _machine_id() -> str:
    for file in _MACHINE_ID_FILES:
        with suppress(OSError):
            if found := file.read_text("ascii", errors="replace").strip():
                return found
    return _kept_id(conf.get().data_path() / "machine_id")


def _kept_id(file: Path) -> str:
    """Return an id of our own, made once and kept where the machine has none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        fresh = file.with_name(f".{file.name}-{uuid4().hex}")
        fresh.write_text(f"{socket.gethostname()}-{uuid4().hex}\n")
        with suppress(FileExistsError):  # another process was faster: its id holds
            os.link(fresh, file)
        fresh.unlink()
    return file.read_text().strip()
