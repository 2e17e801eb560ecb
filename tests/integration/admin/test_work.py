"""What does a job's page tell of what it has done, remembers and waits for?"""

from __future__ import annotations

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from buildqueue.models import Checkpoint, JobProgress
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import SYSTEM
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.decisions import make_action, make_question

from .conftest import Login
from .pages import html_of, page_of, text_of


def test_progress_is_a_bar_with_words(root: Client) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    JobProgress.objects.create(job=job, done=1200, total=5000, message="pages read")

    page = root.get(page_of(job))

    assert '<progress max="5000" value="1200"' in html_of(page)
    assert "1200 of 5000 – pages read" in text_of(page)  # noqa: RUF001


def test_progress_without_an_end_is_a_number(root: Client) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    JobProgress.objects.create(job=job, done=3)

    page = root.get(page_of(job))

    assert "3 done" in text_of(page)
    assert "<progress" not in html_of(page)


def test_what_a_job_remembers_is_shown_masked_to_who_may_see_payloads(
    root: Client, login: Login
) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    JobProgress.objects.create(
        job=job,
        state={"page": "seventeen", "password": "hunter2"},
        plan=["look", "buy"],
        answers={"color": "blue"},
    )
    Checkpoint.objects.create(
        job=job, step="charge", attempt=1, result={"receipt": "r-1", "token": "hunter3"}
    )

    shown = text_of(root.get(page_of(job)))
    refused = text_of(login("view_buildjob").get(page_of(job)))

    for words in ("seventeen", '"look"', '"color": "blue"', '"receipt": "r-1"'):
        assert words in shown
        assert words not in refused
    assert "hunter" not in shown
    assert "Steps done" in refused
    assert "charge" in refused
    assert "not what it remembers (needs: view payload)" in refused


def test_parent_and_children_are_links(root: Client) -> None:
    parent = make_job(JobStatus.WAITING_CHILDREN)
    JobProgress.objects.create(job=parent, waits_for={"for": "children"})
    child = make_job(parent=parent)

    page = root.get(page_of(parent))

    assert page_of(child) in html_of(page)
    assert page_of(parent) in html_of(root.get(page_of(child)))


def test_a_paused_job_says_what_it_waits_for_again(root: Client) -> None:
    job = make_question()
    verbs.pause(job.pk, actor=SYSTEM)

    page = text_of(root.get(page_of(job)))

    assert "Resumed, it waits for a person's answer" in page
    assert "It asks" not in page


def test_many_children_are_a_link_to_all_of_them(root: Client) -> None:
    parent = make_job(JobStatus.WAITING_CHILDREN)
    for _ in range(21):
        make_job(parent=parent)

    page = html_of(root.get(page_of(parent)))
    listed = root.get("/admin/buildqueue/buildjob/", {"parent": str(parent.pk)})

    assert f"?parent={parent.pk}" in page
    assert len(listed.context["cl"].result_list) == 21


def test_a_page_costs_the_same_for_one_action_and_for_many(root: Client) -> None:
    def fill(number: int) -> str:
        job = make_question()
        for at in range(number):
            make_action(job, ActionStatus.OUTCOME_UNKNOWN)
            Checkpoint.objects.create(job=job, step=f"step {at}", attempt=1)
            make_job(parent=job)
        return page_of(job)

    small, large = fill(1), fill(9)
    root.get(small)
    with CaptureQueriesContext(connection) as few:
        root.get(small)
    with CaptureQueriesContext(connection) as many:
        root.get(large)

    assert len(many) == len(few) <= 13


def test_new_progress_and_events_are_told_to_a_page_that_is_open(root: Client) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    live = f"/admin/buildqueue/buildjob/{job.pk}/log/?since=0.0"
    before = root.get(live).json()["version"]

    JobProgress.objects.create(job=job, done=1)
    moved = root.get(live).json()["version"]
    job.events.create(kind="note", title="half way")
    noted = root.get(live).json()["version"]

    assert len({before, moved, noted}) == 3
    assert f'data-bq-version="{noted}"' in html_of(root.get(page_of(job)))
