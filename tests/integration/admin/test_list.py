"""Does the list of jobs find what is meant, and does it stay cheap?"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.admin import paginator
from buildqueue.models import BuildJob, Worker
from tests.factories import make_agent, make_connector, make_job, make_user

from .conftest import Login
from .pages import JOBS, html_of, text_of


def listed(client: Client, **query: str) -> set[uuid.UUID]:
    answer = client.get(JOBS, query)
    assert answer.status_code == 200
    return {job.pk for job in answer.context["cl"].result_list}


def test_a_row_tells_what_an_operator_asks_first(root: Client) -> None:
    worker = Worker.objects.create(host="builder-1", pid=7, slots=2, version="1")
    make_job("in_progress", agent=make_agent(name="search"), worker=worker.pk)
    make_job("failed", error_code="unhealthy", attempt=4, failures=2, crashes=1)

    page = text_of(root.get(JOBS))

    for words in (
        "search",
        "builder-1",
        "▶︎ in progress",
        "unhealthy",
        "3/3",
        "runs",
    ):
        assert words in page
    assert 'title="claimed 4 times"' in html_of(root.get(JOBS))


@pytest.mark.parametrize(
    ("chosen", "statuses"),
    [
        ("open", {"pending", "waiting_input", "in_progress"}),
        ("waiting", {"waiting_input"}),
        ("ended", {"done", "failed"}),
        ("failed", {"failed"}),
        ("nonsense", {"pending", "waiting_input", "in_progress", "done", "failed"}),
    ],
)
def test_the_status_filter_knows_statuses_and_groups(
    root: Client, chosen: str, statuses: set[str]
) -> None:
    for status in ("pending", "waiting_input", "in_progress", "done", "failed"):
        make_job(status)

    found = listed(root, status=chosen)

    assert {BuildJob.objects.get(pk=pk).status for pk in found} == statuses


def test_the_kind_filter_offers_the_registered_kinds(root: Client) -> None:
    job = make_job()
    make_job(payload={"kind": "isolated_probe"})

    assert listed(root, kind="probe") == {job.pk}
    assert "?kind=isolated_probe" in html_of(root.get(JOBS))


def test_the_time_filter_hides_what_is_older(root: Client) -> None:
    job = make_job()
    make_job(created_at=timezone.now() - timedelta(hours=2))

    assert listed(root, created="1h") == {job.pk}
    assert len(listed(root, created="24h")) == 2


def test_a_search_finds_by_id_its_beginning_name_and_key(root: Client) -> None:
    agent, connector = make_agent(name="search-api"), make_connector(name="mail")
    job = make_job(agent=agent, queue="slow", owner_id="ada")
    mail = make_job("failed", connector=connector, error_code="no_space")

    for term in (str(job.pk), str(job.pk)[:6], "search", "queue:slow", "owner:ada"):
        assert listed(root, q=term) == {job.pk}, term
    for term in ("mail", "code:no_space", "status:failed kind:probe", "connector:ma"):
        assert listed(root, q=term) == {mail.pk}, term
    assert listed(root, q="queue:slow status:failed") == set()


@pytest.mark.parametrize(
    "term", ["zz", "%", "'", "a:b", ":", "worker:x", "agent:", "✖"]
)
def test_a_search_for_nonsense_finds_nothing(root: Client, term: str) -> None:
    make_job()

    assert listed(root, q=term) == set()


def test_a_search_for_an_owner_takes_the_key_and_the_users_name(root: Client) -> None:
    user = make_user("operator")
    job = make_job(owner_id=str(user.pk))
    make_job(owner_id="another")

    for term in (f"owner:{user.pk}", "owner:operator"):
        assert listed(root, q=term) == {job.pk}, term


def test_a_search_by_a_key_that_is_none_names_the_known_ones(root: Client) -> None:
    page = text_of(root.get(JOBS, {"q": "foo:bar"}))

    assert "“foo:” is no key of this search; there are: kind:, queue:, status:" in page
    for term in ("owner:me", "agent:a", "worker:x", "mail", "foo"):
        assert "is no key" not in text_of(root.get(JOBS, {"q": term})), term


def test_results_are_counted_beside_the_search_only_of_a_search(root: Client) -> None:
    make_job()

    assert "Show all" not in text_of(root.get(JOBS))
    assert "1 result ( Show all )" in text_of(root.get(JOBS, {"q": "queue:default"}))


@pytest.mark.parametrize(
    "lookup",
    ["payload__token__startswith", "error_msg__contains", "agent__secrets_env"],
)
def test_the_address_cannot_ask_for_columns_that_are_not_named(
    login: Login, lookup: str
) -> None:
    assert login("view_buildjob").get(JOBS, {lookup: "a"}).status_code == 400


def test_the_count_stops_and_says_so(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paginator, "COUNT_CAP", 2)
    for _ in range(4):
        make_job()

    answer = root.get(JOBS)

    assert answer.context["cl"].result_count == 2
    assert "This count stops at 2." in text_of(answer)


def test_the_list_costs_the_same_for_one_job_and_for_many(login: Login) -> None:
    client = login("view_buildjob")
    make_job(agent=make_agent())
    with CaptureQueriesContext(
        connection,
    ) as few:
        client.get(JOBS)
    for _ in range(10):
        make_job("in_progress", agent=make_agent())
        make_job(connector=make_connector())
    with CaptureQueriesContext(connection) as many:
        client.get(JOBS)

    assert len(many) == len(few) <= 7


def plan_of(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(row[0] for row in cursor.fetchall())


FILL = """
INSERT INTO buildqueue_buildjob
  (payload, status, created_at, completed_at, queue, priority)
SELECT '{"kind": "probe"}', 'done', now() - n * interval '1 minute', now(), 'default', 0
FROM generate_series(1, 20000) AS n
"""


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"status": "failed"},
        {"status": "done"},
        {"kind": "probe"},
        {"created": "24h"},
        {"q": "abcd12"},
        {"p": "3"},
    ],
    ids=str,
)
def test_no_page_of_the_list_reads_the_whole_table(
    root: Client, query: dict[str, Any]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        cursor.execute("ANALYZE buildqueue_buildjob")

    with CaptureQueriesContext(connection) as seen:
        assert root.get(JOBS, query).status_code == 200

    asked = [q["sql"] for q in seen if 'FROM "buildqueue_buildjob"' in q["sql"]]
    assert len(asked) == 2  # the count, which stops, and the page
    pages = [sql for sql in asked if "COUNT" not in sql]
    assert all("Seq Scan on buildqueue_buildjob" not in plan_of(sql) for sql in pages)
    assert all(f"LIMIT {paginator.COUNT_CAP + 1}" in s for s in asked if "COUNT" in s)


def test_a_filter_that_postgresql_cannot_take_is_refused(login: Login) -> None:
    answer = login("view_agent").get(
        "/admin/buildqueue/agent/", {"status__exact": "a\0b"}
    )

    assert answer.status_code == 400
