"""How is a JSON document read that no parser of ours takes?"""

from __future__ import annotations

from typing import Any

from django.db import models


class Document(models.JSONField):
    """A JSON column that is read whatever another writer has put there.

    PostgreSQL stores documents nested deeper than Python's parser goes. One such row must
    not make the statement fail that reads it, the claim least of all: it is read as the
    text that it is, fits no payload model, and its job fails with the reason.
    """

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the document, or its text when it is nested too deep."""
        try:
            return super().from_db_value(value, expression, connection)
        except RecursionError:
            return value

    def deconstruct(self) -> Any:
        """Look like Django's field to migrations: the column is the same."""
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
