"""Which connectors does the database know, and what of them should run on a host?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from ...models import BuildJob, McpConnector
from ...queue import database
from ...states import ConnectorSource


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConnector:
    """A live connector, seen from one host."""

    busy: bool  # a job of it is open
    connector: McpConnector
    wanted: UUID | None  # the instance that should run on the host


def of_connectors(
    connector_ids: Sequence[UUID], *, host: str
) -> dict[UUID, KnownConnector]:
    """Return the live ones among the connectors; a missing key is a deleted one.

    Open jobs are read before the connectors: a job that ends in between is seen as
    open, or its connector with what it has made.
    """
    jobs = BuildJob.objects.using(database.alias()).filter(
        connector_id__in=connector_ids, completed_at__isnull=True
    )
    busy = set(jobs.values_list("connector_id", flat=True))
    return {
        row.pk: KnownConnector(
            busy=row.pk in busy,
            connector=row,
            wanted=row.instance_id if row.host == host else None,
        )
        for row in _live().filter(pk__in=connector_ids)
    }


def on_host(host: str) -> list[McpConnector]:
    """Return the live connectors that should run on the host."""
    return list(_live().filter(host=host, instance_id__isnull=False))


def _live() -> QuerySet[McpConnector]:
    rows = McpConnector.objects.using(database.alias())
    return rows.filter(
        deleted_at__isnull=True, source_kind=ConnectorSource.UPLOADED_BUILD
    )
