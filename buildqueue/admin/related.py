"""What belongs to an agent or connector? The latest rows of each kind, and a link on.

Bounded: an agent with ten thousand jobs has a page like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model
from django.http import HttpRequest

from .base import ReadOnlyAdmin

MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedRow:
    """A row and its page."""

    row: Any
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """The latest rows of one model, none when the reader may not see them."""

    name: str
    title: Any
    rows: list[RelatedRow]
    all_url: str
    has_more: bool
    is_allowed: bool


def latest(
    admin: ReadOnlyAdmin,
    request: HttpRequest,
    model: type[Model],
    owner: dict[str, Any],
) -> Related:
    """Return the latest rows of a model that belong to the owner."""
    opts = model._meta
    allowed = request.user.has_perm(f"{opts.app_label}.view_{opts.model_name}")
    mine = model._default_manager.filter(**owner).order_by("-created_at", "-id")
    rows = list(mine[: MOST + 1]) if allowed else []
    listed = admin.admin_url(f"{opts.model_name}_changelist")
    return Related(
        name=str(opts.model_name),
        title=opts.verbose_name_plural,
        rows=[
            RelatedRow(row=row, address=admin.page_of(row, request))
            for row in rows[:MOST]
        ],
        all_url=f"{listed}?{urlencode(owner)}",
        has_more=len(rows) > MOST,
        is_allowed=allowed,
    )
