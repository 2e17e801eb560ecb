"""Do those who are given the URL understand it? psycopg, django-environ and Django."""

from __future__ import annotations

import os
from pathlib import Path

import environ
import psycopg
import pytest

from project.embedded_postgres import (
    EmbeddedPostgresError,
    ensure,
    places,
    stop,
    url,
)
from tests.embedded.servers import ask, outcome, python

ASK_THROUGH_DJANGO = """
import sys
import environ
from django.conf import settings
settings.configure(DATABASES={"default": environ.Env.db_url_config(sys.argv[1])})
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT current_user || '@' || current_database()")
    print(cursor.fetchone()[0])
"""


@pytest.fixture
def odd(ground: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short folder whose name has every character that means something in a URL."""
    return ground / "a%2F b+c?d=e&f#g@h:i;é"


def test_environ_finds_user_name_and_socket(odd: Path) -> None:
    parsed = environ.Env.db_url_config(ensure(odd, durable=False, database="other"))
    assert parsed["ENGINE"] == "django.db.backends.postgresql"
    assert (parsed["USER"], parsed["NAME"]) == ("buildqueue", "other")
    assert parsed["PASSWORD"] == parsed["HOST"] == parsed["PORT"] == ""
    assert parsed["OPTIONS"] == {"host": str(odd / "cluster"), "port": 5432}


def test_django_connects_with_what_environ_found(odd: Path) -> None:
    told = outcome(python(ASK_THROUGH_DJANGO, ensure(odd, durable=False)))
    assert told == "buildqueue@buildqueue"


def test_psycopg_finds_the_same(odd: Path) -> None:
    with psycopg.connect(ensure(odd, durable=False)) as connection:
        assert connection.info.host == str(odd / "cluster")
        assert connection.info.user == "buildqueue"
        assert connection.info.dbname == "buildqueue"


def test_a_port_in_the_environment_leads_nowhere_else(
    pg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGHOST", "/nonexistent")
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1


def test_the_url_can_be_had_without_starting_anything(pg: Path) -> None:
    started = ensure(pg, durable=False)
    stop(pg)
    assert url(pg) == started
    assert not (pg / "cluster" / "postmaster.pid").exists()


def test_there_is_no_url_of_a_database_that_was_never_made(pg: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="start it"):
        url(pg)


def test_the_socket_of_a_url_is_the_one_the_server_made(pg: Path) -> None:
    ensure(pg, durable=False)
    folder = places.socket_folder(pg / "cluster")
    assert os.path.exists(folder / places.SOCKET_NAME)
