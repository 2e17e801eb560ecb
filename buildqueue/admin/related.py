"""What belongs to an agent or connector? The latest rows of each kind, and a link on.

Bounded: an agent with ten thousand jobs has a page like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest

from .base import ReadOnlyAdmin
from .display import Shown

MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What is shown of each row: the first column is what the row is called."""

    title: Any
    cell: Callable[[Any], Shown]
    look: str = ""  # the class of its cells
    is_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one model that belong to something, in the order they are shown."""

    rows: QuerySet[Any]
    columns: Sequence[Column]
    title: Any = ""  # none: the model's own name
    query: Mapping[str, Any] = field(
        default_factory=dict
    )  # of their list; none: no list
    has_pages: bool = True
    most: int = MOST
    # Asks once for what the cells of all rows need.
    prepare: Callable[[Sequence[Any]], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedRow:
    """A row's cells and its page."""

    name: Shown
    cells: list[tuple[Shown, str]]  # with the class of each
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """The latest rows of one model, none when the reader may not see them."""

    name: str
    title: Any
    columns: Sequence[Column]
    rows: list[RelatedRow]
    all_url: str
    has_more: bool
    is_allowed: bool


def latest(admin: ReadOnlyAdmin, request: HttpRequest, part: Part) -> Related:
    """Return what a page shows of a part: one query, none for who may not see it."""
    opts = part.rows.model._meta
    allowed = request.user.has_perm(f"{opts.app_label}.view_{opts.model_name}")
    found = list(part.rows[: part.most + 1]) if allowed else []
    shown = found[: part.most]
    if part.prepare and shown:
        part.prepare(shown)
    return Related(
        name=str(opts.model_name),
        title=part.title or opts.verbose_name_plural,
        columns=part.columns,
        rows=[_row(admin, request, part, row) for row in shown],
        all_url=_list_of(admin, part),
        has_more=len(found) > part.most,
        is_allowed=allowed,
    )


def _row(
    admin: ReadOnlyAdmin, request: HttpRequest, part: Part, row: Any
) -> RelatedRow:
    first, *rest = part.columns
    return RelatedRow(
        name=first.cell(row),
        cells=[(column.cell(row), column.look) for column in rest],
        address=admin.page_of(row, request) if part.has_pages else "",
    )


def _list_of(admin: ReadOnlyAdmin, part: Part) -> str:
    if not part.query:
        return ""
    listed = admin.admin_url(f"{part.rows.model._meta.model_name}_changelist")
    return f"{listed}?{urlencode(part.query)}"
