"""What does every test start from? A clean database; nothing clever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, connections, transaction
from django.test.utils import setup_databases, teardown_databases


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_blocker: Any,
    django_db_modify_db_settings: None,
    django_db_keepdb: bool,
    django_db_createdb: bool,
) -> Iterator[None]:
    """Make the test databases, whatever the tests of this run are marked with.

    The plug-in's own makes none when no test has its mark, and `committed` would then
    work on, and clear, the real one.
    """
    keep = django_db_keepdb and not django_db_createdb
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, keepdb=keep)
    yield
    if not django_db_keepdb:
        with django_db_blocker.unblock():
            teardown_databases(made, verbosity=0)


@pytest.fixture
def committed(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Let a test commit for real, seen by other connections and processes.

    Clears by DELETE afterwards: TRUNCATE of two dozen tables costs more than the tests.
    """
    with django_db_blocker.unblock():
        yield
        for each in connections.all(initialized_only=True):
            each.close()
        _clear()
        connection.close()


def _clear() -> None:
    kept = {"django_migrations", "django_content_type", "auth_permission"}
    tables = {model._meta.db_table for model in apps.get_models(True, True)} - kept
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL buildqueue.retention = 'on'")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for table in sorted(tables):
            cursor.execute(f'DELETE FROM "{table}"')
