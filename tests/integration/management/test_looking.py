"""Does a shell see what a job asks, did and waits for, whatever a handler wrote?"""

from __future__ import annotations

import json

import pytest

from buildqueue.models import Checkpoint, JobProgress
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.commands import refusal, run
from tests.support.decisions import make_action, make_question

pytestmark = pytest.mark.django_db


def test_actions_are_listed_and_narrowed() -> None:
    review = make_action()
    done = make_action(make_job(), ActionStatus.SUCCEEDED, receipt={"id": "m-1"})

    every, some = run("actions"), run("actions", "--status", "succeeded")
    of_job = run("actions", str(done.job_id))
    (line,) = run("actions", str(review.job_id), "--json").splitlines()

    assert str(review.pk) in every
    assert str(review.pk) not in some
    assert '  receipt {"id": "m-1"}' in of_job.splitlines()
    assert json.loads(line)["content_hash"] == review.content_hash


def test_an_action_that_is_not_there_is_refused_with_a_sentence() -> None:
    assert "no action begins" in str(refusal("approve", "zzzz", "--yes"))


def test_show_tells_what_a_job_asks_did_and_waits_for() -> None:
    parent = make_job(JobStatus.WAITING_CHILDREN)
    job = make_question(parent=parent)
    JobProgress.objects.filter(pk=job.pk).update(done=2, total=5, message="halfway")
    Checkpoint.objects.create(job=job, step="charge", attempt=1)
    action = make_action(job, ActionStatus.SUCCEEDED)

    text, above = run("show", str(job.pk)), run("show", str(parent.pk))
    data = json.loads(run("show", str(job.pk), "--json"))

    for words in (
        "How shall it be printed?",
        "2 of 5  halfway",
        "charge",
        str(action.pk),
    ):
        assert words in text, words
    assert str(parent.pk) in text
    assert f"{job.pk}  waiting_input" in above
    assert data["question"]["fields"]["copies"]["type"] == "integer"
    assert data["progress"]["done"] == 2
    assert data["steps_done"][0]["step"] == "charge"
    assert data["actions"][0]["id"] == str(action.pk)
    assert data["parent"] == str(parent.pk)
    assert json.loads(run("show", str(parent.pk), "--json"))["children"] == [
        {"id": str(job.pk), "kind": "probe", "status": "waiting_input"}
    ]


def test_what_a_handler_says_does_not_command_the_terminal() -> None:
    action = make_action(title="a\x1b]0;title\x07b\x1b[2Jc", content={"x": "\x9b2J"})

    text = run("actions", str(action.job_id))

    assert "abc" in text
    assert not {"\x1b", "\x07", "\x9b"} & set(text)
