"""What does every test start from? A clean database; nothing clever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, connections, transaction


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
