"""How do an owner's secrets answer? By name and time, never by value."""

from __future__ import annotations

from datetime import datetime

from ninja import Schema


class Secret(Schema):
    """A secret's name, and when it was set."""

    name: str
    created_at: datetime
    updated_at: datetime


class Secrets(Schema):
    """The caller's secrets, by name."""

    secrets: list[Secret]
