"""How many rows match? Counted up to a cap, so that the answer costs the same always.

Nobody turns ten thousand rows over: past the cap the pages end, and the page says so
and points to filters and search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.utils.functional import cached_property

from ..queue.stats import COUNT_CAP

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator


class CappedPaginator(_Paginator):
    """A paginator whose count stops at the cap."""

    @cached_property
    def found(self) -> int:
        """Return the count, one more than the cap when there are more."""
        rows: Any = self.object_list
        number: int = rows.order_by().values("pk")[: COUNT_CAP + 1].count()
        return number

    @cached_property
    def count(self) -> int:
        """Return how many rows the pages show."""
        return min(self.found, COUNT_CAP)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than the pages show."""
        return self.found > COUNT_CAP
