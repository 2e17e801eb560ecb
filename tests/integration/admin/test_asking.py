"""How are a job's priority and time changed, and its question answered, by forms?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from buildqueue.models import BuildJob, JobEvent, JobProgress
from buildqueue.queue import questions, verbs
from buildqueue.queue.outcomes import SYSTEM
from buildqueue.queue.questions import Field
from buildqueue.states import FINAL, JobStatus
from tests.factories import make_job
from tests.support.decisions import make_question

from .conftest import Login
from .pages import JOBS, act_url, html_of, page_of, text_of

ANSWERS = {"given-copies": "2", "given-urgent": "false", "given-color": "blue"}


def key_of(job: BuildJob) -> str:
    return str(JobProgress.objects.get(pk=job.pk).waits_for["key"])


def post_answer(client: Client, job: BuildJob, seen: str | None = None, **more: str):  # type: ignore[no-untyped-def]
    asked = {"id": str(job.pk), "from": "page", "seen": seen or key_of(job)}
    return client.post(act_url("answer"), asked | ANSWERS | more, follow=True)


def test_the_page_of_a_job_that_asks_shows_question_and_fields(root: Client) -> None:
    page = root.get(page_of(make_question()))

    for words in ("How shall it be printed?", "What to write", "How many are printed."):
        assert words in text_of(page)
    assert act_url("answer") in html_of(page)


def test_the_form_has_a_field_for_each_that_is_asked(root: Client) -> None:
    job = make_question()

    page = html_of(root.get(act_url("answer"), {"id": str(job.pk), "from": "page"}))

    assert '<textarea name="given-note"' in page
    assert '<input type="number" name="given-copies"' in page
    assert 'aria-describedby="id_given-copies_helptext"' in page
    assert '<option value="false">no</option>' in page
    assert '<option value="blue">blue</option>' in page
    assert f'name="seen" value="{key_of(job)}"' in page
    assert "How shall it be printed?" in page


def test_an_answer_is_stored_in_the_types_that_were_asked_for(root: Client) -> None:
    job = make_question()

    answer = post_answer(root, job)

    job.refresh_from_db()
    assert job.status == "pending"
    assert "Your answer is stored; the job goes on." in text_of(answer)
    answers = JobProgress.objects.get(pk=job.pk).answers
    assert answers == {"copies": 2, "urgent": False, "color": "blue"}
    assert JobEvent.objects.get(job=job, kind="answered").actor == "root"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("given-copies", "many", "Enter a whole number."),
        ("given-copies", "", "This field is required."),
        ("given-weight", "inf", "Enter a number."),
        ("given-urgent", "", "This field is required."),
        ("given-color", "green", "Select a valid choice."),
        ("given-note", "a\x00b", "Null characters are not allowed."),
        ("given-note", "x" * 10_001, "at most 10000 characters"),
    ],
)
def test_what_does_not_fit_is_told_at_its_field(
    root: Client, field: str, value: str, words: str
) -> None:
    job = make_question()

    answer = post_answer(root, job, **{field: value})

    job.refresh_from_db()
    assert words in html_of(answer)
    assert 'role="alert"' in html_of(answer)
    assert job.status == "waiting_input"


def test_what_the_engine_finds_wrong_is_told_at_its_field(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_question()
    monkeypatch.setattr(questions, "LONGEST_TEXT", 10)
    # The form was made when more was allowed.
    monkeypatch.setattr("django.forms.CharField.run_validators", lambda *_: None)

    answer = post_answer(root, job, **{"given-note": "x" * 11})

    job.refresh_from_db()
    assert "String should have at most 10 characters" in text_of(answer)
    assert 'role="alert"' in html_of(answer)
    assert job.status == "waiting_input"


def test_a_field_may_be_called_like_one_of_the_page(root: Client) -> None:
    fields = {name: Field() for name in ("id", "reason", "seen", "from", "two words")}
    job = make_question(fields=fields)
    page = html_of(root.get(act_url("answer"), {"id": str(job.pk)}))
    keys = {name: f"given-{name}" for name in fields if name != "two words"}
    odd = page.split('<textarea name="given-')[1:]
    keys["two words"] = next(
        f"given-{part.split(chr(34))[0]}"
        for part in odd
        if f"given-{part.split(chr(34))[0]}" not in keys.values()
    )

    post_answer(root, job, **{key: name.upper() for name, key in keys.items()})

    answers = JobProgress.objects.get(pk=job.pk).answers
    assert answers == {name: name.upper() for name in fields}


def test_an_answer_to_another_question_is_refused(root: Client) -> None:
    job = make_question()

    answer = post_answer(root, job, seen="of-yesterday")

    job.refresh_from_db()
    assert "0 applied, 1 refused (The job asks something else by now" in text_of(answer)
    assert "How shall it be printed?" in text_of(answer)
    assert job.status == "waiting_input"


def test_a_second_answer_is_refused_with_the_present_state(root: Client) -> None:
    job = make_question()
    key = key_of(job)
    post_answer(root, job)

    again = post_answer(root, job, seen=key)

    assert "0 applied, 1 refused" in text_of(again)
    assert "it is pending" in text_of(again)


def test_an_answer_to_a_paused_job_is_refused(root: Client) -> None:
    job = make_question()
    verbs.pause(job.pk, actor=SYSTEM)

    answer = post_answer(root, job)

    assert "it is paused" in text_of(answer)
    assert JobProgress.objects.get(pk=job.pk).answers == {}


def test_only_who_may_answer_is_offered_the_form(login: Login) -> None:
    job = make_question()
    viewer = login("view_buildjob", "pause_buildjob")

    page = viewer.get(page_of(job))

    assert "(needs: answer)" in text_of(page)
    assert act_url("answer") not in html_of(page)
    assert viewer.get(act_url("answer"), {"id": str(job.pk)}).status_code == 403
    assert post_answer(viewer, job).status_code == 403
    assert (
        login("view_buildjob", "answer_buildjob")
        .get(act_url("answer"), {"id": str(job.pk)})
        .status_code
        == 200
    )


def test_answers_are_given_one_at_a_time(root: Client) -> None:
    ids = [str(make_question().pk) for _ in range(2)]

    answer = root.get(act_url("answer"), {"id": ids}, follow=True)

    assert "This is done one at a time." in text_of(answer)
    assert 'value="answer"' not in html_of(root.get(JOBS))


def test_priority_changes_for_many_jobs_at_once(root: Client) -> None:
    jobs = [make_job(), make_job(JobStatus.PAUSED), make_job(JobStatus.DONE)]
    ids = [str(job.pk) for job in jobs]

    answer = root.post(
        act_url("change_priority"),
        {"id": ids, "given-priority": "7", "reason": "demo"},
        follow=True,
    )

    assert "Change priority: 2 applied, 1 refused" in text_of(answer)
    assert BuildJob.objects.filter(priority=7).count() == 2
    event = JobEvent.objects.get(job=jobs[0], kind="priority_changed")
    assert (event.detail, event.reason) == ({"from": 0, "to": 7}, "demo")


@pytest.mark.parametrize("priority", ["", "101", "-101", "1.5", "high"])
def test_a_priority_that_is_none_is_told_at_its_field(
    root: Client, priority: str
) -> None:
    job = make_job()

    answer = root.post(
        act_url("change_priority"), {"id": str(job.pk), "given-priority": priority}
    )

    assert answer.status_code == 200
    assert 'role="alert"' in html_of(answer)


def test_due_time_is_read_in_the_time_zone_that_the_form_names(
    root: Client, settings: object
) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"  # type: ignore[attr-defined]
    job = make_job()
    asked = {"id": str(job.pk)}

    page = text_of(root.get(act_url("change_due"), asked))
    root.post(act_url("change_due"), asked | {"given-due_at": "2050-01-01T09:00"})

    job.refresh_from_db()
    assert "In the time zone JST" in page or "In the time zone Asia/Tokyo" in page
    assert job.status == "scheduled"
    assert job.due_at.isoformat() == "2050-01-01T00:00:00+00:00"


def test_a_due_time_that_is_past_means_now(root: Client) -> None:
    later = timezone.now() + timedelta(days=1)
    job = make_job(JobStatus.SCHEDULED, due_at=later)

    root.post(
        act_url("change_due"),
        {"id": str(job.pk), "given-due_at": "2020-01-01T00:00:00"},
    )

    job.refresh_from_db()
    assert job.status == "pending"


@pytest.mark.parametrize("moment", ["", "soon", "0001-01-01T00:00", "9999-12-31T23:59"])
def test_a_moment_that_cannot_be_stored_is_told_at_its_field(
    root: Client, moment: str
) -> None:
    job = make_job()

    answer = root.post(
        act_url("change_due"), {"id": str(job.pk), "given-due_at": moment}
    )

    assert answer.status_code == 200
    assert 'role="alert"' in html_of(answer)


@pytest.mark.parametrize("act", ["change_priority", "change_due"])
def test_changing_when_needs_its_own_permission(login: Login, act: str) -> None:
    job = make_job()
    others = login("view_buildjob", "pause_buildjob", "change_buildjob")
    own = login("view_buildjob", "reschedule_buildjob")

    assert others.get(act_url(act), {"id": str(job.pk)}).status_code == 403
    assert own.get(act_url(act), {"id": str(job.pk)}).status_code == 200


@pytest.mark.parametrize("status", sorted(FINAL))
@pytest.mark.parametrize("act", ["change_priority", "change_due", "answer"])
def test_of_an_ended_job_nothing_is_asked(root: Client, act: str, status: str) -> None:
    job = make_job(status)

    page = text_of(root.get(act_url(act), {"id": str(job.pk)}))

    assert "None of the selected can take this now." in page
    assert f"Left out: it is {status}" in page
