"""Can this database be worked on at all? If not, say what to do about it."""

from __future__ import annotations

from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from .. import conf
from ..exceptions import BuildQueueError
from ..queue import database

OLDEST_SERVER = 150000


class CannotWork(BuildQueueError):
    """The worker cannot start; the message says what to do."""


def check() -> None:
    """Raise CannotWork when a setting is wrong or the database is not fit."""
    if faults := conf.get().faults:
        raise CannotWork("\n".join(faults))
    alias = database.alias()
    connection = connections[alias]
    if connection.vendor != "postgresql":
        raise CannotWork(
            f"The database {alias!r} is {connection.display_name}; buildqueue needs "
            "PostgreSQL 15 or later. Set DATABASES or a router for 'buildqueue'."
        )
    try:
        connection.ensure_connection()
    except DatabaseError as error:
        raise CannotWork(
            f"The database {alias!r} cannot be reached: {error}\n"
            "Is the server running, and are host, name and password right?"
        ) from error
    version = connection.pg_version  # type: ignore[attr-defined]
    if version < OLDEST_SERVER:
        raise CannotWork(
            f"PostgreSQL {version // 10000} is too old; buildqueue needs 15 or later."
        )
    _check_migrations(alias)
    _check_direct()


def _check_direct() -> None:
    """See that the connection past the pooler leads to a database at all."""
    named = conf.get().direct_database
    if named is None:
        return
    if named not in connections:
        raise CannotWork(
            f"BUILDQUEUE['DIRECT_DATABASE'] is {named!r}, and DATABASES has no such "
            "alias. Add it, with the address of PostgreSQL itself, or leave it out."
        )
    try:
        connections[named].ensure_connection()
    except DatabaseError as error:
        raise CannotWork(
            f"The database {named!r}, named as DIRECT_DATABASE, cannot be reached: "
            f"{error}"
        ) from error


def _check_migrations(alias: str) -> None:
    executor = MigrationExecutor(connections[alias])
    own = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "buildqueue"]
    if executor.migration_plan(own):
        raise CannotWork(
            f"The tables of buildqueue in {alias!r} are not up to date. "
            "Run `manage.py migrate` first."
        )
