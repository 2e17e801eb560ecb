"""How does everything get under the newest key? Row by row, while all goes on.

First give every host the new key beside the old one, then rotate, then take the old one
away. Each row is changed only if it is still what was read, and is readable before and
after: dying half-way leaves some rows under the old key, and the next rotation does them.
What cannot be read stays as it is and is told by row, never by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from django.db import models
from django.db.models import Q

from ...exceptions import Rejected
from ...models import (
    Agent,
    AgentBuild,
    McpConnector,
    McpConnectorBuild,
    OwnerSecret,
)
from ...queue import database
from . import keys

Stored: TypeAlias = "str | dict[str, str]"

TRIES = 20  # at a row that others change meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Where ciphertext stands, and whose it is."""

    model: type[models.Model]
    name: str
    owner: str  # the path to the owner's id

    @property
    def label(self) -> str:
        """Return what the column is called in a report."""
        return f"{self.model._meta.model_name}.{self.name}"


COLUMNS = (
    Column(model=Agent, name="secrets_env", owner="owner_id"),
    Column(model=AgentBuild, name="secrets_env", owner="agent__owner_id"),
    Column(model=AgentBuild, name="source_token", owner="agent__owner_id"),
    Column(model=McpConnector, name="build_secrets_env", owner="owner_id"),
    Column(model=McpConnector, name="oauth_client_secret", owner="owner_id"),
    Column(model=McpConnectorBuild, name="secrets_env", owner="connector__owner_id"),
    Column(model=McpConnectorBuild, name="source_token", owner="connector__owner_id"),
    Column(model=OwnerSecret, name="encrypted_value", owner="owner_id"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A row that could not be rotated."""

    column: str  # such as "agent.secrets_env"
    id: str
    name: str | None = None  # of the variable in an environment


@dataclass(slots=True, kw_only=True)
class RotationReport:
    """What a rotation did. All is under the newest key when nothing is left."""

    rotated: int = 0  # rows
    current: int = 0  # rows that were under the newest key already
    unreadable: list[Left] = field(default_factory=list)
    busy: list[Left] = field(default_factory=list)  # changed by others all the time


def rotate(batch: int = 500) -> RotationReport:
    """Bring every ciphertext under the newest key; may be repeated at any time."""
    report = RotationReport()
    for column in COLUMNS:
        for pk, owner_id, stored in _rows(column, batch):
            _rotate_row(column, pk, owner_id or "", stored, report)
    return report


def _rows(column: Column, batch: int) -> Iterator[tuple[Any, str | None, Stored]]:
    """Yield id, owner and ciphertext of all rows that have some, a chunk at a time."""
    empty = Q(**{f"{column.name}__isnull": True}) | Q(**{column.name: ""})
    if isinstance(column.model._meta.get_field(column.name), models.JSONField):
        empty = Q(**{column.name: {}})
    rows = _of(column).exclude(empty).order_by("pk")
    wanted, last = rows.values_list("pk", column.owner, column.name), None
    while True:
        chunk = list((wanted.filter(pk__gt=last) if last else wanted)[:batch])
        yield from chunk
        if len(chunk) < batch:
            return
        last = chunk[-1][0]


def _rotate_row(
    column: Column, pk: Any, owner_id: str, stored: Stored, report: RotationReport
) -> None:
    unreadable: list[Left] = []
    for _ in range(TRIES):
        fresh, unreadable = _renewed(column, pk, owner_id, stored)
        if fresh == stored:
            report.current += not unreadable
            break
        row = _of(column).filter(pk=pk)
        if row.filter(**{column.name: stored}).update(**{column.name: fresh}):
            report.rotated += 1
            break
        found = row.values_list(column.name, flat=True).first()
        if not found:
            return  # deleted or emptied meanwhile
        stored = found
    else:
        report.busy.append(Left(column=column.label, id=str(pk)))
    report.unreadable += unreadable


def _renewed(
    column: Column, pk: Any, owner_id: str, stored: Stored
) -> tuple[Stored, list[Left]]:
    """Return the ciphertexts under the newest key, and which of them no key reads."""
    left: list[Left] = []

    def renew(token: str, name: str | None) -> str:
        try:
            return keys.renewed(owner_id, token) or token
        except Rejected:
            left.append(Left(column=column.label, id=str(pk), name=name))
            return token

    if isinstance(stored, dict):
        return {name: renew(token, name) for name, token in stored.items()}, left
    return renew(stored, None), left


def _of(column: Column) -> models.QuerySet[models.Model]:
    return column.model._default_manager.using(database.alias())
