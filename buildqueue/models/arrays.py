"""How is an array column declared without asking the host for another app?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.postgres.fields import ArrayField
from django.core.checks import CheckMessage

if TYPE_CHECKING:
    _ArrayField = ArrayField[Any, Any]
else:
    _ArrayField = ArrayField  # generic for the type checker alone


class Array(_ArrayField):
    """Django's array field, in a host that has not installed `django.contrib.postgres`.

    Newer Djangos refuse that (postgres.E005) for what the app brings besides: lookups
    on arrays in the admin's forms and such. Storing and reading needs none of it, and a
    drop-in app should not cost a second line in INSTALLED_APPS.
    """

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return what Django finds, but for the app that is not installed."""
        found: list[CheckMessage] = super().check(**kwargs)
        return [each for each in found if each.id != "postgres.E005"]
