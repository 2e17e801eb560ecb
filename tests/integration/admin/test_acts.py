"""How is an act asked for, confirmed and told?"""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from buildqueue.admin import acts, confirming
from buildqueue.admin.jobacts import JOB_ACTS
from buildqueue.api import bodies
from buildqueue.exceptions import Refused
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import handlers
from buildqueue.queue.verbs import VERBS
from tests.factories import make_job

from .conftest import Login
from .pages import JOBS, act_url, html_of, page_of, text_of


def test_every_verb_of_the_queue_is_offered() -> None:
    assert {act.name for act in JOB_ACTS} == set(VERBS)


def test_the_list_offers_each_act_that_may_be_done_to_many(root: Client) -> None:
    make_job()

    page = html_of(root.get(JOBS))

    many = [*VERBS, "change_priority", "change_due"]
    assert [act for act in many if f'<option value="{act}">' not in page] == []
    assert 'name="index" value="0"' in page  # Django's own button that runs them
    assert '<option value="answer">' not in page


def test_the_confirmation_says_of_each_job_what_happens_or_why_not(
    root: Client,
) -> None:
    failed, done = make_job("failed"), make_job("done")

    page = text_of(root.get(act_url("retry"), {"id": [str(failed.pk), str(done.pk)]}))

    assert "1 will be changed, 1 is left out" in page
    assert "→ ○︎ pending" in page
    assert "Left out: it is done; possible from: failed, cancelled" in page


def test_looking_at_a_confirmation_changes_nothing(root: Client) -> None:
    job = make_job("failed")

    root.get(act_url("retry"), {"id": str(job.pk)})

    job.refresh_from_db()
    assert job.status == "failed"
    assert not JobEvent.objects.filter(job=job).exists()


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        ("cancel", "pending"),
        ("release", "in_progress"),
        ("force_fail", "pending"),
        ("pause", "pending"),
    ],
)
@pytest.mark.parametrize("reason", ["", "   "])
def test_a_verb_that_stops_something_wants_a_reason(
    root: Client, verb: str, status: str, reason: str
) -> None:
    job = make_job(status)

    answer = root.post(act_url(verb), {"id": str(job.pk), "reason": reason})

    job.refresh_from_db()
    assert answer.status_code == 200
    assert "Say why" in text_of(answer)
    assert job.status == status


def test_retry_needs_no_reason(root: Client) -> None:
    job = make_job("failed")

    root.post(act_url("retry"), {"id": str(job.pk)})

    job.refresh_from_db()
    assert job.status == "pending"


def test_the_timeline_and_the_history_keep_who_and_why(login: Login) -> None:
    client = login("view_buildjob", "cancel_buildjob", name="ada")
    job = make_job()

    client.post(act_url("cancel"), {"id": str(job.pk), "reason": "wrong branch"})

    event = JobEvent.objects.get(job=job, kind="cancel")
    entry = LogEntry.objects.get(object_id=str(job.pk))
    assert (event.actor, event.reason) == ("ada", "wrong branch")
    assert event.actor_id == str(entry.user_id)
    assert entry.change_message == "Cancel: wrong branch"
    assert "wrong branch" in text_of(client.get(f"{JOBS}{job.pk}/history/"))


def test_one_message_tells_both_numbers(root: Client) -> None:
    jobs = [make_job("failed"), make_job("failed"), make_job("done")]

    answer = root.post(
        act_url("retry"), {"id": [str(job.pk) for job in jobs]}, follow=True
    )

    told = [str(message) for message in answer.context["messages"]]
    assert len(told) == 1
    assert told[0].startswith("Retry: 2 applied, 1 refused (cannot retry job ")
    assert "it is done" in told[0]


def test_a_refusal_of_the_domain_is_told_and_changes_nothing(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(job: BuildJob) -> None:
        raise Refused("agent_deleted", "the agent was deleted")

    probe = handlers.get("probe")
    refusing = handlers.Handler(
        kind="probe", function=probe.function, payload=probe.payload, on_reopen=refuse
    )
    monkeypatch.setitem(handlers._handlers, "probe", refusing)
    job = make_job("failed")

    answer = root.post(act_url("retry"), {"id": str(job.pk)}, follow=True)

    job.refresh_from_db()
    assert job.status == "failed"
    assert "0 applied, 1 refused (the agent was deleted)" in text_of(answer)
    assert not LogEntry.objects.exists()


def test_a_job_that_changed_since_the_confirmation_is_refused(root: Client) -> None:
    job = make_job("pending")
    root.get(act_url("cancel"), {"id": str(job.pk)})
    root.post(act_url("cancel"), {"id": str(job.pk), "reason": "first"})

    again = root.post(
        act_url("cancel"), {"id": str(job.pk), "reason": "second"}, follow=True
    )

    job.refresh_from_db()
    assert "0 applied, 1 refused" in text_of(again)
    assert job.error_msg == "first"


def test_an_action_on_the_list_leads_to_the_confirmation(root: Client) -> None:
    job = make_job("failed")

    page = root.post(
        f"{JOBS}?status=failed",
        {"action": "retry", "_selected_action": str(job.pk), "index": "0"},
    )

    assert f'name="id" value="{job.pk}"' in html_of(page)
    assert 'name="filters" value="status=failed"' in html_of(page)


def test_after_a_list_action_the_filtered_list_comes_back(root: Client) -> None:
    job = make_job("failed")

    answer = root.post(
        act_url("retry"), {"id": str(job.pk), "filters": "status=failed"}
    )

    assert answer.headers["Location"] == f"{JOBS}?status=failed"


@pytest.mark.parametrize("filters", ["//evil.example", "https://evil.example/?a=b"])
def test_the_way_back_never_leaves_the_list(root: Client, filters: str) -> None:
    job = make_job("failed")

    answer = root.post(act_url("retry"), {"id": str(job.pk), "filters": filters})

    assert answer.headers["Location"].startswith(f"{JOBS}?")


def test_after_a_button_the_job_comes_back(root: Client) -> None:
    job = make_job("failed")

    answer = root.post(act_url("retry"), {"id": str(job.pk), "from": "page"})

    assert answer.headers["Location"] == page_of(job)


def test_more_than_fit_are_cut_off_and_told(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "MOST_AT_ONCE", 2)
    for _ in range(3):
        make_job("failed")

    page = root.post(
        JOBS,
        {
            "action": "retry",
            "select_across": "1",
            "index": "0",
            "_selected_action": str(BuildJob.objects.first().pk),
        },
    )

    assert html_of(page).count('name="id"') == 2
    assert "these are the first 2. Run the action again" in text_of(page)


def test_posted_ids_above_the_cap_are_not_touched(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "MOST_AT_ONCE", 1)
    jobs = [make_job("failed"), make_job("failed")]

    root.post(act_url("retry"), {"id": [str(job.pk) for job in jobs]})

    assert BuildJob.objects.filter(status="pending").count() == 1


@pytest.mark.parametrize("identifier", ["", "nonsense", "1", "0" * 32])
def test_an_id_that_is_none_is_an_answer_not_a_crash(
    root: Client, identifier: str
) -> None:
    asked = root.get(act_url("retry"), {"id": identifier})
    posted = root.post(act_url("retry"), {"id": identifier})
    action = root.post(
        JOBS, {"action": "retry", "_selected_action": identifier, "index": "0"}
    )

    assert asked.status_code == posted.status_code == 302
    assert action.status_code in (200, 302)


def test_an_act_that_is_none_is_refused(root: Client) -> None:
    assert root.get(act_url("explode")).status_code == 403


def test_only_what_is_possible_is_a_button_and_the_rest_says_why(root: Client) -> None:
    page = html_of(root.get(page_of(make_job("failed"))))
    shown, hidden = page.split('<details class="bq bq-kept bq-dead">')

    assert f'href="{act_url("retry")}' in shown
    assert f'href="{act_url("cancel")}' not in page
    assert "Cancel: it is failed; possible from:" in hidden
    assert "Retry" not in hidden.split("</details>")[0]


def test_buttons_stand_only_on_pages_of_who_may(login: Login) -> None:
    job = make_job("failed")
    viewer, operator = login("view_buildjob"), login("view_buildjob", "retry_buildjob")

    assert act_url("retry") not in html_of(viewer.get(page_of(job)))
    assert act_url("retry") in html_of(operator.get(page_of(job)))
    assert act_url("cancel") not in html_of(operator.get(page_of(job)))


def test_a_retry_that_meets_an_open_twin_is_refused(root: Client) -> None:
    job = make_job("failed", dedupe_key="nightly")
    make_job("pending", dedupe_key="nightly")

    answer = root.post(act_url("retry"), {"id": str(job.pk)}, follow=True)

    job.refresh_from_db()
    assert job.status == "failed"
    assert "0 applied, 1 refused" in text_of(answer)


def test_a_whole_page_of_jobs_is_retried_at_once(root: Client) -> None:
    jobs = [make_job("failed") for _ in range(30)]

    root.post(act_url("retry"), {"id": [str(job.pk) for job in jobs]})

    assert BuildJob.objects.filter(status="pending").count() == 30
    assert LogEntry.objects.count() == 30


def test_a_reason_may_be_as_long_as_over_the_api() -> None:
    assert confirming.LONGEST_REASON == bodies.MAX_REASON
