"""Where is uploaded source kept, so that any worker can build it again?

In a Django storage, under the checksum of its content: what is there is never changed,
and the same source is stored once. Its row is written before the file, and used_at says
when somebody last stored or fetched it, so the pruner takes none that is in use. Dying
before the file is whole leaves a row, and what lies there is replaced by the next who
stores it, or pruned.
"""

from __future__ import annotations

import hashlib
import posixpath
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from django.core.exceptions import SuspiciousFileOperation
from django.core.files import File
from django.core.files.storage import Storage
from django.db.models.functions import Now

from .. import conf
from ..backends.archives import ArchiveLimits
from ..exceptions import Refused, Rejected, Unavailable
from ..models import Source
from ..queue import database
from .payloads import StoredSource
from .sourceplace import FOLDER, reaching, size_of, storage
from .sourcepruning import prune

if TYPE_CHECKING:
    from .payloads import SourceKey

__all__ = [
    "Spooled",
    "archive_limits",
    "delete",
    "exists",
    "fetch",
    "keep",
    "prune",
    "renew",
    "spool",
    "storage",
]

TRIES = 3  # to store a file under its name
_CHUNK = 256 * 1024
_GZIP = b"\x1f\x8b"
_NOT_STORED = "source_not_stored", "the source could not be stored; try again later"
_NOT_READ = "source_unreadable", "the stored source cannot be read now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled:
    """A source in a local file of the caller's."""

    path: Path
    sha256: str
    size: int


def archive_limits() -> ArchiveLimits:
    """Return how much an uploaded archive may bring."""
    settings = conf.get()
    return ArchiveLimits(
        max_bytes_in=settings.upload_max_bytes,
        max_entries=settings.archive_max_entries,
        max_bytes_out=settings.archive_max_unpacked_bytes,
    )


def spooled(path: Path) -> Spooled:
    """Return a local file as a spooled source."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            digest.update(chunk)
    return Spooled(path=path, sha256=digest.hexdigest(), size=size)


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
    """Store a spooled source, unless it is there; Unavailable when it cannot be.

    Its row is committed first, or with the caller's transaction. Two who store the same
    at once both succeed. What is refused afterwards is left to the pruner: another may
    have come to use it.
    """
    kept = StoredSource(key=_key_of(spooled), sha256=spooled.sha256, size=spooled.size)
    _note(kept)
    place = storage()
    try:
        with reaching(*_NOT_STORED):
            _store(place, kept.key, spooled)
    except FileNotFoundError as error:
        raise Unavailable(*_NOT_STORED) from error
    return kept


def fetch(source: StoredSource | SourceKey, path: Path) -> None:
    """Copy a stored source into a new file, and check that it is what was stored.

    A source that another system stored without a checksum is only limited in size. After
    a failure the file is not there.
    """
    _touch(source.key)
    place = storage()
    try:
        with reaching(*_NOT_READ):
            _copy(place, source, path)
    except (FileNotFoundError, SuspiciousFileOperation) as error:
        path.unlink(missing_ok=True)
        raise _missing(place, source.key) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def exists(key: str) -> bool:
    """Tell whether the source is there; Unavailable when the storage is not."""
    try:
        with reaching(*_NOT_READ):
            return storage().exists(key)
    except (FileNotFoundError, SuspiciousFileOperation):
        return False


def renew(key: str) -> bool:
    """Tell whether the source is there, and have it kept for as long as a new one."""
    _touch(key)
    return exists(key)


def delete(key: str) -> None:
    """Delete a source whatever needs it; absent is fine."""
    with reaching(*_NOT_STORED):
        storage().delete(key)
    Source.objects.using(database.alias()).filter(pk=key).delete()


def _key_of(spooled: Spooled) -> str:
    with spooled.path.open("rb") as file:
        ending = ".tar.gz" if file.read(len(_GZIP)) == _GZIP else ".zip"
    return f"{FOLDER}/{spooled.sha256[:2]}/{spooled.sha256}{ending}"


def _note(kept: StoredSource) -> None:
    """Write the source's row, or that it is used again; waits for its pruner."""
    row = Source(key=kept.key, sha256=kept.sha256, size=kept.size)
    Source.objects.using(database.alias()).bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["key"],
        update_fields=["used_at"],
    )


def _touch(key: str) -> None:
    Source.objects.using(database.alias()).filter(pk=key).update(used_at=Now())


def _store(place: Storage, key: str, spooled: Spooled) -> None:
    """Put the file under its key, and nowhere else."""
    for _ in range(TRIES):
        found = size_of(place, key)
        if found == spooled.size:
            return
        if found is not None:  # not whole: its writer died, or is at it in vain
            place.delete(key)
        with spooled.path.open("rb") as stream:
            name = place.save(key, File(stream))
        if name == key:
            return
        place.delete(name)  # another was faster: what is there is looked at again
    raise Unavailable(*_NOT_STORED)


def _copy(place: Storage, source: StoredSource | SourceKey, path: Path) -> None:
    known = source if isinstance(source, StoredSource) else None
    limit = known.size if known else conf.get().upload_max_bytes
    with place.open(source.key, "rb") as stored, path.open("xb") as file:
        size, sha256 = _poured(stored, file, limit)
    if known is None:
        if size > limit:
            raise Rejected(
                "source_too_large", f"the stored source is larger than {limit} bytes"
            )
        return
    if (size, sha256) == (known.size, known.sha256):
        return
    if size == known.size:  # who stores it again would take it for whole
        place.delete(known.key)
    raise Rejected(
        "source_damaged", "the stored source is not what was uploaded; upload it again"
    )


def _poured(stored: File[bytes], file: BinaryIO, limit: int) -> tuple[int, str]:
    """Copy a file; return size and checksum. One that is too large is not read on."""
    digest, size = hashlib.sha256(), 0
    if stored.size > limit:
        return stored.size, ""
    for chunk in stored.chunks(_CHUNK):
        size += len(chunk)
        if size > limit:
            break
        digest.update(chunk)
        file.write(chunk)
    return size, digest.hexdigest()


def _missing(place: Storage, key: str) -> Rejected:
    """Return that the source is gone; Unavailable when the storage itself is.

    A bucket that is not there answers for each file that there is none, but has no list.
    """
    listing_fails = (FileNotFoundError, NotADirectoryError, NotImplementedError)
    with reaching(*_NOT_READ), suppress(*listing_fails, SuspiciousFileOperation):
        place.listdir(posixpath.dirname(key))
    return Rejected("source_missing", "the stored source is gone; upload it again")
