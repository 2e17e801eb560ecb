"""Where does the token of a private repository go? To its server, and nowhere else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from django.db import connection

from buildqueue.builds import secrets, watches
from buildqueue.models import Agent
from tests.support.gitrepository import Repository
from tests.support.gitserver import GitServer
from tests.support.jobs import text

from .conftest import ANNA, MakeWatch, built_from, look, now_is, run

pytestmark = pytest.mark.usefixtures("committed")

TOKEN = "ghp-planted-5d41402abc4b2a76"


def database_text() -> str:
    """Return every row of every table, as text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" AS t')
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


class CommandLines:
    """Every command line that was seen while a block ran."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.001):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:
                    continue

    def __enter__(self) -> CommandLines:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def test_the_token_of_a_private_repository_is_shown_to_its_server_alone(
    make_watch: MakeWatch, server: GitServer, repo: Repository, agent: Agent
) -> None:
    built_from(agent, repo.head())
    server.require_token(TOKEN)
    secrets.set_secret("1", "GIT_TOKEN", TOKEN)
    watch = make_watch(secret="GIT_TOKEN", mode="update")

    with CommandLines() as lines:
        check = look(watch)
        repo.commit({"main.py": "print(2)\n"})
        look(watch)

    assert check.status == "done", check.error_msg
    assert any(server.admits(asked.authorization) for asked in server.requests)
    assert any(b"ls-remote" in line for line in lines.seen), "nothing was seen"
    assert not any(TOKEN.encode() in line for line in lines.seen)
    assert TOKEN not in database_text()
    assert TOKEN not in text(check)


def test_a_wrong_token_is_a_failure_that_does_not_tell_it(
    make_watch: MakeWatch, server: GitServer, repo: Repository
) -> None:
    server.require_token("another")
    secrets.set_secret("1", "GIT_TOKEN", TOKEN)
    watch = make_watch(secret="GIT_TOKEN")

    check = look(watch)

    assert check.status == "failed"
    assert now_is(watch).failures == 1
    assert TOKEN not in database_text()


def test_the_secret_is_the_agents_owners_and_not_the_callers(
    make_watch: MakeWatch, server: GitServer, repo: Repository, agent: Agent
) -> None:
    server.require_token(TOKEN)
    secrets.set_secret("1", "GIT_TOKEN", TOKEN)
    secrets.set_secret("2", "GIT_TOKEN", "what ben has")

    watch = make_watch(
        secret="GIT_TOKEN", actor=type(ANNA)(label="ben", id="2"), mode="propose"
    )

    assert look(watch).status == "done"


def test_a_secret_that_was_removed_is_a_failure_with_its_name(
    make_watch: MakeWatch, server: GitServer, repo: Repository
) -> None:
    secrets.set_secret("1", "GIT_TOKEN", TOKEN)
    watch = make_watch(secret="GIT_TOKEN")
    job = watches.check_now(watch, actor=ANNA)
    secrets.remove_secret("1", "GIT_TOKEN")

    assert run(job).error_code == "secret_missing"

    assert server.requests == [], "the server was asked without the token"
    assert "GIT_TOKEN" in (now_is(watch).last_error or "")
