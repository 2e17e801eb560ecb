"""How is a long list read? Newest first, a page at a time, each after the last row seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from ninja import Query

from .problems import refused

PageSize = Annotated[int, Query(ge=1, le=200)]
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row]):
    """Some rows, and what the next page is after; None on the last one."""

    rows: list[Row]
    next: UUID | None


def page_of(
    shown: QuerySet[Row],
    *,
    after: UUID | None,
    limit: int,
    known: QuerySet[Any] | None = None,
) -> Page[Row]:
    """Return a page of rows; `known` holds the places that may be named as well.

    One that was deleted meanwhile still marks the place.
    """
    if after is not None:
        places = shown if known is None else known
        shown = shown.filter(_older_than(places, after))
    found = list(shown.order_by("-created_at", "-id")[: limit + 1])
    rows = found[:limit]
    return Page(rows=rows, next=rows[-1].pk if len(found) > limit else None)


def _older_than(known: QuerySet[Any], row_id: UUID) -> Q:
    moments = known.filter(pk=row_id).values_list("created_at", flat=True)
    if (moment := moments.first()) is None:
        why = "take it from the page before"
        raise refused("invalid_parameter", f"after: {why}", {"after": why})
    return Q(created_at__lt=moment) | Q(created_at=moment, id__lt=row_id)
