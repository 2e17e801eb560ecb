"""What does an operator mean by what was typed? Numbers, moments, hashes, pairs."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from .. import clock
from ..models.jobs import MOMENTS
from ..queue.logs import storable

MOST = 100_000
COUNT = re.compile(r"[0-9]{1,6}")
HASH = re.compile(r"[0-9a-fA-F]{8,64}")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LATER = re.compile(r"\+(\d{1,9})([smhd])")
WHEN = "`now`, such as +10m (s, m, h, d), or such as 2030-01-31T08:00"


def count(text: str) -> int:
    """Return a whole number from 1 to as many as anybody reads."""
    if not COUNT.fullmatch(text) or not 1 <= int(text) <= MOST:
        raise ArgumentTypeError(
            f"must be a whole number from 1 to {MOST}, not {text!r}"
        )
    return int(text)


def words(text: str) -> str:
    """Return a text that can be looked for: a terminal may send what is no text."""
    return storable(text)


def moment(text: str) -> datetime:
    """Return a moment; one without an offset is in the project's time zone."""
    try:
        found = _moment(text)
    except (ValueError, OverflowError):
        found = None
    if found is None or not MOMENTS[0] <= found <= MOMENTS[1]:
        raise ArgumentTypeError(f"must be {WHEN}, not {text!r}")
    return found


def _moment(text: str) -> datetime | None:
    if text == "now":
        return clock.now()
    if later := LATER.fullmatch(text):
        return clock.now() + timedelta(**{UNITS[later[2]]: int(later[1])})
    found = parse_datetime(text)
    return timezone.make_aware(found) if found and found.tzinfo is None else found


def beginning(text: str) -> str:
    """Return a hash, or enough of its beginning to tell it from others."""
    if not HASH.fullmatch(text):
        raise ArgumentTypeError(f"must be 8 to 64 hexadecimal digits, not {text!r}")
    return text.lower()


def pair(text: str) -> tuple[str, str]:
    """Return the field and the value of an answer."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"must be field=value, not {text!r}")
    return words(name), words(value)
