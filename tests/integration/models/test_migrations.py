"""Do the migrations say what the models say, and do they lead back?"""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command

from tests.support.scratch import scratch_database, url_of

ROOT = Path(__file__).parents[3]

SCHEMA = """
SELECT 'column', table_name, column_name, data_type, column_default, is_nullable
FROM information_schema.columns WHERE table_name LIKE 'buildqueue%'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
FROM pg_constraint WHERE conrelid::regclass::text LIKE 'buildqueue%'
UNION ALL
SELECT 'index', tablename, indexname, indexdef, '', '' FROM pg_indexes
WHERE tablename LIKE 'buildqueue%'
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), '', ''
FROM pg_trigger WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE 'buildqueue%'
UNION ALL
SELECT 'relation', relname, relkind::text, array_to_string(reloptions, ','), '', ''
FROM pg_class WHERE relname LIKE 'buildqueue%'
UNION ALL
SELECT 'function', proname, '', '', '', '' FROM pg_proc WHERE proname LIKE 'buildqueue%'
"""


def _migrate(url: str, *target: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity=0", *target],
        env=os.environ
        | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def _schema(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as session:
        found = session.execute(SCHEMA).fetchall()
    return sorted(tuple(map(str, row)) for row in found)


@pytest.mark.django_db
def test_no_model_differs_from_its_migrations() -> None:
    said = StringIO()

    call_command("makemigrations", "buildqueue", check=True, dry_run=True, stdout=said)

    assert "No changes detected" in said.getvalue()


@pytest.mark.django_db
def test_the_migrations_lead_to_nothing_and_forward_to_the_same_again() -> None:
    with scratch_database() as name:
        url = url_of(name)
        _migrate(url)
        first = _schema(url)
        _migrate(url, "buildqueue", "zero")
        nothing = _schema(url)
        _migrate(url)
        again = _schema(url)

    assert nothing == []
    assert any(row[0] == "trigger" for row in first)
    assert again == first
