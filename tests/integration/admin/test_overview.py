"""Does the overview tell the state of the queue, cheaply and honestly?"""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.admin import display
from buildqueue.models import Worker
from buildqueue.queue import stats
from tests.factories import make_agent, make_job
from tests.support.decisions import make_action, make_question

from .builtrows import make_proposal, make_watch
from .conftest import Login
from .pages import JOBS, OVERVIEW, html_of, page_of, text_of

NOBODY = (
    "No worker has reported for 60 s. Jobs will wait. "
    "Start one with manage.py runworker ."
)


def make_worker(silent: timedelta = timedelta(0), **values: object) -> Worker:
    values.setdefault("slots", 4)
    worker = Worker.objects.create(host="builder-1", pid=7, version="1.2.3", **values)
    Worker.objects.filter(pk=worker.pk).update(heartbeat_at=timezone.now() - silent)
    worker.refresh_from_db()
    return worker


def test_each_count_is_a_link_to_exactly_those_jobs(root: Client) -> None:
    for status in ("pending", "pending", "failed", "waiting_input"):
        make_job(status)

    answer = root.get(OVERVIEW)

    tiles = {tile.status: tile for tile in answer.context["tiles"]}
    assert tiles["pending"].number == "2"
    assert tiles["done"].number == "0"
    for status in ("pending", "failed", "waiting_input", "done"):
        listed = root.get(tiles[status].address).context["cl"].result_list
        assert str(len(listed)) == tiles[status].number
        assert {job.status for job in listed} <= {status}


def test_what_waits_for_a_person_is_a_link_to_exactly_that(root: Client) -> None:
    make_question()
    for _ in range(2):
        make_action()
    make_action(make_job("failed"), "outcome_unknown")
    make_job("failed", error_code="max_attempts_exhausted")
    for _ in range(3):
        make_proposal()
    make_proposal(status="dismissed", decided_at=timezone.now())
    make_proposal(make_watch(make_agent(deleted_at=timezone.now())))
    for _ in range(2):
        make_watch(status="paused", failures=5)
    make_watch(status="paused", failures=1)
    make_watch(make_agent(deleted_at=timezone.now()), status="paused", failures=5)

    answer = root.get(OVERVIEW)

    numbers = (1, 2, 1, 1, 3, 2)
    for each, number in zip(answer.context["for_you"], numbers, strict=True):
        listed = root.get(each.address).context["cl"].result_list
        assert (each.number, len(listed)) == (str(number), number), each.title
    assert "Waiting for you 1 question to answer 2 actions to review" in text_of(answer)


def test_who_may_not_see_actions_gets_no_link_to_them(login: Login) -> None:
    make_action()

    page = html_of(login("view_overview", "view_buildjob").get(OVERVIEW))

    assert "/jobaction/" not in page
    assert f'href="{JOBS}' in page


def test_who_may_not_see_watches_gets_no_link_to_them(login: Login) -> None:
    make_proposal(make_watch(status="paused", failures=5))

    page = login("view_overview", "view_buildjob").get(OVERVIEW)

    assert "1 update to accept 1 watch given up" in text_of(page)
    assert "/proposal/" not in html_of(page)
    assert "/sourcewatch/" not in html_of(page)


def test_a_capped_count_says_so() -> None:
    assert display.capped(10_000, stats.COUNT_CAP) == "10\u00a0000+"
    assert display.capped(9_999, stats.COUNT_CAP) == "9\u00a0999"


def test_the_oldest_waiting_job_is_named_with_its_age(root: Client) -> None:
    now = timezone.now()
    oldest = make_job(
        due_at=now - timedelta(hours=2, minutes=5, seconds=5), queue="slow"
    )
    make_job(due_at=now - timedelta(minutes=1))

    page = root.get(OVERVIEW)

    assert page_of(oldest) in html_of(page)
    assert "has waited 2 h 5 min in the queue “slow”" in text_of(page)


def test_without_a_worker_the_page_says_what_to_do(root: Client) -> None:
    assert NOBODY in text_of(root.get(OVERVIEW))


def test_a_silent_worker_is_shown_as_doubt_and_does_not_count(root: Client) -> None:
    make_worker(timedelta(minutes=3), busy=1)

    page = text_of(root.get(OVERVIEW))

    assert "silent, possibly gone" in page
    assert NOBODY in page
    assert "0 of 0 slots busy" in page


def test_a_reporting_worker_tells_slots_queues_and_version(root: Client) -> None:
    make_worker(busy=3, queues=["builds", "default"])
    make_worker(status="stopped", busy=0)

    page = text_of(root.get(OVERVIEW))

    assert NOBODY not in page
    for words in (
        "builder-1:7",
        "3/4",
        "builds, default",
        "1.2.3",
        "3 of 4 slots busy",
    ):
        assert words in page


def test_failures_and_running_jobs_are_told_with_reason_and_host(root: Client) -> None:
    worker = make_worker()
    make_job("failed", error_code="build_failed", error_msg="pip found no such package")
    make_job("in_progress", worker=worker.pk, agent=make_agent(name="search"))

    page = text_of(root.get(OVERVIEW))

    assert "build_failed pip found no such package" in page
    assert "search default builder-1:7" in page


def test_without_the_permission_for_jobs_nothing_links_to_them(login: Login) -> None:
    make_job("failed")
    make_job("in_progress")
    make_worker()

    page = html_of(login("view_overview").get(OVERVIEW))

    assert f'href="{JOBS}' not in page
    assert "/worker/" not in page


def test_the_page_costs_the_same_for_few_jobs_and_for_many(root: Client) -> None:
    def fill() -> None:
        for status in ("pending", "failed", "in_progress", "done"):
            make_job(status, agent=make_agent())
        make_worker()
        make_proposal()
        make_watch(status="paused", failures=5)

    fill()
    root.get(OVERVIEW)
    with CaptureQueriesContext(connection) as few:
        root.get(OVERVIEW)
    for _ in range(6):
        fill()
    with CaptureQueriesContext(connection) as many:
        root.get(OVERVIEW)

    assert len(many) == len(few) <= 24


def test_there_is_nothing_to_add_open_or_delete(root: Client) -> None:
    job = make_job()

    for address in ("add/", f"{job.pk}/change/", f"{job.pk}/delete/"):
        assert root.get(OVERVIEW + address).status_code == 404
