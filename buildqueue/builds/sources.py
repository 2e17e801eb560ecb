"""Where is uploaded source kept, so that any worker can build it again?

In a Django storage: the alias `SOURCE_STORAGE` of STORAGES, or private files below
DATA_DIR. A source is written once under a name nobody chose, and read with its
checksum. A process that dies between storing and the commit that names the source
leaves an orphan, which `prune_orphans` removes a day later.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from django.core.exceptions import SuspiciousFileOperation
from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage, storages
from django.utils import timezone

from .. import conf
from ..backends.archives import ZipLimits
from ..exceptions import Refused, Rejected, Unavailable
from ..models import AgentBuild, McpConnectorBuild
from ..queue import database
from .payloads import StoredSource

FOLDER = "sources"
ORPHAN_AGE = timedelta(days=1)
_CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled:
    """A source in a local file of the caller's."""

    path: Path
    sha256: str
    size: int


def zip_limits() -> ZipLimits:
    """Return how much an uploaded archive may bring."""
    settings = conf.get()
    return ZipLimits(
        max_bytes_in=settings.upload_max_bytes,
        max_entries=settings.archive_max_entries,
        max_bytes_out=settings.archive_max_unpacked_bytes,
    )


def storage() -> Storage:
    """Return the storage of sources."""
    settings = conf.get()
    if settings.source_storage is not None:
        return storages[settings.source_storage]
    root = settings.data_path()
    # Made here with the usual mode: the storage would close it to everybody else.
    root.mkdir(parents=True, exist_ok=True)
    return FileSystemStorage(
        location=root / FOLDER,
        file_permissions_mode=0o600,
        directory_permissions_mode=0o700,
    )


def spool(stream: BinaryIO, path: Path) -> Spooled:
    """Write the stream to a file, counting and hashing; refuse one that is too large."""
    limit = conf.get().upload_max_bytes
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise Refused(
                    "source_too_large",
                    f"the source is larger than {limit} bytes; leave out what the "
                    "agent does not need",
                    status=413,
                    fields={"source": f"at most {limit} bytes"},
                )
            digest.update(chunk)
            file.write(chunk)
    return Spooled(path=path, sha256=digest.hexdigest(), size=size)


def keep(spooled: Spooled) -> StoredSource:
    """Store a spooled source; one that could not be stored whole is removed."""
    key = f"{FOLDER}/{uuid4().hex}.zip"
    place = storage()
    try:
        with spooled.path.open("rb") as stream:
            key = place.save(key, File(stream))
    except BaseException as error:
        with suppress(OSError):
            place.delete(key)
        if isinstance(error, OSError):
            raise Unavailable(
                "source_not_stored", "the source could not be stored; try again later"
            ) from error
        raise
    return StoredSource(key=key, sha256=spooled.sha256, size=spooled.size)


def fetch(source: StoredSource, path: Path) -> None:
    """Copy a stored source into a new file, and check that it is what was stored."""
    digest = hashlib.sha256()
    try:
        with storage().open(source.key, "rb") as stored, path.open("xb") as file:
            for chunk in stored.chunks(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except (FileNotFoundError, SuspiciousFileOperation) as error:
        # A key that leads out of the storage names no source either.
        raise Rejected(
            "source_missing", "the stored source is gone; upload it again"
        ) from error
    except OSError as error:
        raise Unavailable(
            "source_unreadable", "the stored source cannot be read now"
        ) from error
    if digest.hexdigest() != source.sha256:
        raise Rejected(
            "source_damaged",
            "the stored source is not what was uploaded; upload it again",
        )


def exists(key: str) -> bool:
    """Tell whether the source is there."""
    return storage().exists(key)


def delete(key: str) -> None:
    """Delete a source; absent is fine."""
    storage().delete(key)


def prune_orphans(*, older_than: timedelta = ORPHAN_AGE, limit: int = 1000) -> int:
    """Delete old sources that no build names; return how many. A duty's call.

    The age is what keeps it off a source whose commit is still to come.
    """
    place = storage()
    before, pruned = timezone.now() - older_than, 0
    for key in _stored(place):
        if pruned >= limit:
            break
        try:
            if place.get_modified_time(key) > before or _is_named(key):
                continue
            place.delete(key)
        except FileNotFoundError:
            continue  # another pruner was faster
        pruned += 1
    return pruned


def _stored(place: Storage) -> list[str]:
    try:
        _, names = place.listdir(FOLDER)
    except FileNotFoundError:
        return []
    return [f"{FOLDER}/{name}" for name in sorted(names)]


def _is_named(key: str) -> bool:
    alias = database.alias()
    return (
        AgentBuild.objects.using(alias).filter(source_key=key).exists()
        or McpConnectorBuild.objects.using(alias).filter(source_key=key).exists()
    )
