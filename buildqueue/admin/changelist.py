"""What does a list of the control room read beside its rows?

The names of the owners, in one query for the whole list. The search box tells a number
only of what was searched: the pages below it count the rest.
"""

from __future__ import annotations

from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest

from . import people


class QuietChangeList(ChangeList):
    """A list that says how many results only when something is searched."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page of rows."""
        super().get_results(request)
        if not self.query:
            self.full_result_count = self.result_count


class OwnedChangeList(QuietChangeList):
    """A list whose rows have owners."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page of rows, and who owns them."""
        super().get_results(request)
        people.name_owners(self.result_list)
