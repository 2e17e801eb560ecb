"""Which sources may go? Those that nobody used for long and nothing could need again.

Needed are those of open builds, of versions that run or can come back, and of what a
connector runs. The row is locked while its file is deleted, so nobody stores or fetches
it meanwhile; dying between file and row leaves the row, and the next pruner ends it.
A file that has no row is given one first, and goes the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from django.core.files.storage import Storage
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from .. import conf
from ..models import (
    AgentBuild,
    AgentVersion,
    BuildJob,
    McpConnectorBuild,
    Source,
)
from ..queue import database
from ..states import BuildStatus, ConnectorBuildStatus, VersionStatus
from .sourceplace import FOLDER, reaching, size_of, storage

ORPHAN_AGE = timedelta(days=1)
MOST_AT_ONCE = 200
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

_FOLDER = re.compile(r"[0-9a-f]{2}")
_OURS = re.compile(r"([0-9a-f]{64})(\.zip|\.tar\.gz)?(.*)")


def prune(
    *,
    retention: timedelta | None = None,
    orphan_age: timedelta = ORPHAN_AGE,
    limit: int = MOST_AT_ONCE,
) -> int:
    """Delete sources that may go, so many at most; return how many went.

    Several at once share the work. Unavailable when the storage cannot be reached; what
    went before stays gone.
    """
    place = storage()
    if retention is None:
        retention = timedelta(days=conf.get().source_retention_days)
    with reaching("sources_not_pruned", "the storage of sources cannot be reached"):
        gone = _sweep(place, orphan_age, limit)
        oldest = _expired(retention).order_by("used_at", "key")
        for key in list(oldest.values_list("key", flat=True)[:limit]):
            gone += _delete(place, key, retention)
    return gone


def _delete(place: Storage, key: str, retention: timedelta) -> bool:
    """Delete file and row, unless somebody holds, uses or needs it by now."""
    with database.atomic():
        locked = _expired(retention).select_for_update(skip_locked=True)
        source = locked.filter(pk=key).first()
        if source is None:
            return False
        place.delete(key)
        source.delete(using=database.alias())
        return True


def _expired(retention: timedelta) -> QuerySet[Source]:
    sources = Source.objects.using(database.alias())
    return sources.filter(
        ~Exists(_needed_by_agents()),
        ~Exists(_needed_by_connectors()),
        used_at__lt=Now() - retention,
    )


def _needed_by_agents() -> QuerySet[AgentBuild]:
    """Return the builds of a source that are open, or whose version may run again."""
    alias = database.alias()
    jobs = BuildJob.objects.using(alias).filter(
        pk=OuterRef("job_id"), completed_at__isnull=True
    )
    versions = AgentVersion.objects.using(alias).filter(
        Q(build=OuterRef("pk")) | Q(pk=OuterRef("version_id")),
        Q(status__in=[VersionStatus.BUILDING, VersionStatus.PUSHED])
        | Q(status=VersionStatus.ACTIVE)
        | Q(status=VersionStatus.ARCHIVED, can_rollback=True),
        agent__deleted_at__isnull=True,
    )
    return AgentBuild.objects.using(alias).filter(
        Q(status__in=[BuildStatus.QUEUED, BuildStatus.BUILDING])
        | Exists(jobs)
        | Exists(versions),
        source_key=OuterRef("key"),
    )


def _needed_by_connectors() -> QuerySet[McpConnectorBuild]:
    """Return the builds of a source that are open, last or last to succeed."""
    alias = database.alias()
    builds = McpConnectorBuild.objects.using(alias)
    jobs = BuildJob.objects.using(alias).filter(
        pk=OuterRef("job_id"), completed_at__isnull=True
    )
    better = builds.filter(
        connector=OuterRef("connector"),
        created_at__gt=OuterRef("created_at"),
        status=ConnectorBuildStatus.SUCCESS,
    )
    return builds.filter(
        Exists(jobs) | ~Exists(better),
        source_key=OuterRef("key"),
        connector__deleted_at__isnull=True,
    )


def _sweep(place: Storage, age: timedelta, limit: int) -> int:
    """Give files without a row one, and delete what never became a source."""
    before, removed, adopted = timezone.now() - age, 0, 0
    for key, sha256, is_whole in _without_row(place):
        if removed + adopted >= limit:
            break
        with suppress(FileNotFoundError):  # another pruner was faster
            if place.get_modified_time(key) > before:
                continue
            if is_whole:
                adopted += _adopt(place, key, sha256)
            else:
                place.delete(key)
                removed += 1
    return removed


def _without_row(place: Storage) -> Iterator[tuple[str, str, bool]]:
    """Yield files of ours that no row names: key, checksum, and whether it is a source.

    What others keep in the same storage does not look like ours, and is left alone.
    """
    folders, _ = _listed(place, FOLDER)
    for folder in sorted(filter(_FOLDER.fullmatch, folders)):
        _, names = _listed(place, f"{FOLDER}/{folder}")
        found = {f"{FOLDER}/{folder}/{name}": _OURS.fullmatch(name) for name in names}
        rows = Source.objects.using(database.alias()).filter(key__in=list(found))
        known = set(rows.values_list("key", flat=True))
        for key, match in found.items():
            if match and match[1].startswith(folder) and key not in known:
                yield key, match[1], bool(match[2]) and not match[3]


def _listed(place: Storage, folder: str) -> tuple[list[str], list[str]]:
    """Return folders and files; none where nothing was stored or no list is to be had."""
    try:
        return place.listdir(folder)
    except (FileNotFoundError, NotImplementedError):
        return [], []


def _adopt(place: Storage, key: str, sha256: str) -> bool:
    """Write the row of a file that has none, as one that nobody used for long.

    Of no effect when somebody stores it at this moment: then there is a row.
    """
    if (size := size_of(place, key)) is None:
        return False
    row = Source(key=key, sha256=sha256, size=size, used_at=LONG_AGO)
    rows = Source.objects.using(database.alias())
    rows.bulk_create([row], ignore_conflicts=True)
    return True
