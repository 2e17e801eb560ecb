"""Which database expressions do the defaults of columns need?"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Func, Value


class NextValue(Func):
    """`nextval('name')`: the next number of a sequence made by a migration."""

    function = "nextval"
    output_field = models.BigIntegerField()

    def __init__(self, *expressions: Any, **extra: Any) -> None:
        named = [Value(e) if isinstance(e, str) else e for e in expressions]
        super().__init__(*named, **extra)


class ClockTimestamp(Func):
    """`clock_timestamp()`: the moment of the statement, not of its transaction."""

    template = "clock_timestamp()"
    output_field = models.DateTimeField()
