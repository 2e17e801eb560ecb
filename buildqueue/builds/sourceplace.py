"""Where do sources lie, and what may that place answer?

In a Django storage: the alias `SOURCE_STORAGE` of STORAGES, or private files below
DATA_DIR. Whatever a storage's library raises becomes Unavailable here, but for the two
that say something of the file: that it is not there, or that no file has such a name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from django.core.exceptions import SuspiciousFileOperation
from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage, storages

from .. import conf
from ..exceptions import BuildQueueError, Unavailable

FOLDER = "sources"


class PrivateFolder(FileSystemStorage):
    """Files for this account alone, each under its very name, whole or not at all."""

    def __init__(self, location: Path) -> None:
        """Keep the files below the location, which is made when one is saved."""
        super().__init__(location=location)

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        """Return the name: what is saved under it takes the place of what is there."""
        return name

    def _save(self, name: str, content: File[bytes]) -> str:
        """Write beside the name and move there; dying before leaves an orphan."""
        made, root = Path(self.path(name)), Path(self.location)
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = made.with_name(f"{made.name}.{uuid4().hex}")
        try:
            with os.fdopen(_create(beside), "wb") as file:
                shutil.copyfileobj(content, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(made)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        return name


def storage() -> Storage:
    """Return the storage of sources."""
    settings = conf.get()
    if settings.source_storage is not None:
        return storages[settings.source_storage]
    return PrivateFolder(settings.data_path() / FOLDER)


@contextmanager
def reaching(code: str, message: str) -> Iterator[None]:
    """Raise Unavailable for what a storage raises inside."""
    try:
        yield
    except (BuildQueueError, FileNotFoundError, SuspiciousFileOperation):
        raise
    except Exception as error:
        # Which errors a storage has is known to its library, and that is the host's choice.
        raise Unavailable(code, message, detail=type(error).__name__) from error


def size_of(place: Storage, key: str) -> int | None:
    """Return the size of a file; None when it is not there."""
    with suppress(FileNotFoundError):
        if place.exists(key):
            return place.size(key)
    return None


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
