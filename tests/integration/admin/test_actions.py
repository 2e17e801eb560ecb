"""How does a person decide on what a job wants to do outside?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.models import BuildJob, JobAction, JobEvent
from buildqueue.queue import actions
from buildqueue.queue.outcomes import Actor
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.decisions import make_action

from .conftest import Login
from .pages import act_url, html_of, page_of, text_of

ACTIONS = "/admin/buildqueue/jobaction/"
HOSTILE = "<script>alert(1)</script>"
ADA = Actor(label="ada", id="1")
SEES = ("view_buildjob", "view_jobaction", "view_payload")


def url(name: str) -> str:
    return act_url(name, "jobaction")


def post(client: Client, name: str, action: JobAction, **more: str) -> Any:
    asked = {"id": str(action.pk), "from": "page", "seen": action.content_hash}
    return client.post(url(name), asked | more, follow=True)


def status_of(row: JobAction | BuildJob) -> str:
    row.refresh_from_db()
    return row.status


def unknown() -> JobAction:
    job = make_job(JobStatus.FAILED, error_code="outcome_unknown")
    return make_action(job, ActionStatus.OUTCOME_UNKNOWN, error_msg="its run ended")


def test_the_form_shows_what_would_be_done_and_carries_its_hash(root: Client) -> None:
    action = make_action()

    page = html_of(root.get(url("approve"), {"id": str(action.pk), "from": "page"}))

    assert "anna@example.org" in page
    assert f'name="seen" value="{action.content_hash}"' in page
    assert "does exactly this, once" in page


def test_approving_wakes_the_job_and_leads_back_to_its_page(root: Client) -> None:
    action = make_action()

    answer = post(root, "approve", action)

    assert answer.redirect_chain[-1][0] == page_of(action.job)
    assert "Approved; the job goes on and does it, once." in text_of(answer)
    assert status_of(action) == "approved"
    assert status_of(action.job) == "pending"
    assert action.decided_by == "root"


def test_who_turns_back_is_where_they_came_from(root: Client) -> None:
    action = make_action()
    own, home = page_of(action), page_of(action.job)

    for origin, back in (("page", own), ("home", home)):
        asked = {"id": str(action.pk), "from": origin}
        page = html_of(root.get(url("approve"), asked))
        assert f'href="{back}">No, take me back' in page
        assert f'name="from" value="{origin}"' in page
    assert f"{url('approve')}?id={action.pk}&amp;from=home" in html_of(root.get(home))
    assert f"{url('approve')}?id={action.pk}&amp;from=page" in html_of(root.get(own))


def test_the_page_has_what_a_shell_needs_to_decide(root: Client) -> None:
    action = make_action()

    for row in (action, action.job):
        page = html_of(root.get(page_of(row)))
        assert f">{action.pk}</code>" in page
        assert f">{action.content_hash}</code>" in page


@pytest.mark.parametrize(
    ("status", "verb"), [("failed", "retry"), ("paused", "resume"), ("done", "")]
)
def test_who_has_settled_the_last_outcome_is_led_on(
    root: Client, status: str, verb: str
) -> None:
    job = make_job(status)
    first, last = (make_action(job, ActionStatus.OUTCOME_UNKNOWN) for _ in range(2))

    early = post(root, "happened", first, reason="seen")
    late = post(root, "not_happened", last, reason="not seen")

    assert "another outcome of the job is still to be settled" in text_of(early)
    assert "Settled" in text_of(late)
    link = (
        f'href="/admin/buildqueue/buildjob/acts/{verb}/?id={job.pk}&amp;from=page">now'
    )
    assert (link in html_of(late)) is bool(verb)


def test_a_failed_job_says_what_is_known_of_its_actions_by_now(root: Client) -> None:
    action = unknown()

    before = text_of(root.get(page_of(action.job)))
    post(root, "happened", action, reason="seen")
    after = text_of(root.get(page_of(action.job)))

    told = f"“{action.title}” is now:"
    assert "outcome unknown" in before.split(told)[1][:30]
    assert "succeeded" in after.split(told)[1][:30]


def test_denying_wants_a_reason_and_keeps_it(root: Client) -> None:
    action = make_action()

    unsaid = post(root, "deny", action)
    assert "Say why" in text_of(unsaid)
    assert status_of(action) == "awaiting_review"
    post(root, "deny", action, reason="wrong Anna")

    assert status_of(action) == "denied"
    assert action.reason == "wrong Anna"
    event = JobEvent.objects.get(job=action.job, kind="action_denied")
    assert (event.actor, event.reason) == ("root", "wrong Anna")


@pytest.mark.parametrize("seen", ["", "0" * 64])
@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_decision_on_content_that_was_not_shown_is_refused(
    root: Client, decision: str, seen: str
) -> None:
    action = make_action()

    answer = post(root, decision, action, seen=seen, reason="x")

    assert "What you have seen is not what would be done" in text_of(answer)
    assert "awaiting review" in text_of(answer)
    assert status_of(action) == "awaiting_review"


def test_a_second_decision_is_refused_with_the_first(root: Client) -> None:
    action = make_action()
    actions.deny(action.pk, content_hash=action.content_hash, actor=ADA, reason="no")

    answer = post(root, "approve", action)
    asked = root.get(url("approve"), {"id": str(action.pk)})

    assert "The action is denied (decided by ada)" in text_of(answer)
    assert "Left out: it is denied, decided by ada" in text_of(asked)
    assert status_of(action) == "denied"


def test_an_action_whose_time_is_over_is_expired_by_who_comes_late(
    root: Client,
) -> None:
    action = make_action(expires_at=timezone.now() - timedelta(minutes=1))

    answer = post(root, "approve", action)

    assert "Its time is over" in text_of(answer)
    assert status_of(action) == "expired"


@pytest.mark.parametrize(
    ("act", "after", "receipt"),
    [("happened", "succeeded", {}), ("not_happened", "failed", None)],
)
def test_an_unknown_outcome_is_settled_as_somebody_found_it(
    root: Client, act: str, after: str, receipt: dict[str, str] | None
) -> None:
    action = unknown()

    unsaid = post(root, act, action)
    assert "Say why" in text_of(unsaid)
    post(root, act, action, reason="asked the provider")

    assert status_of(action) == after
    assert action.settled_by == "root"
    assert action.receipt == receipt


def test_settling_twice_is_refused_with_the_present_state(root: Client) -> None:
    action = unknown()
    post(root, "happened", action, reason="seen")

    again = post(root, "not_happened", action, reason="not seen")

    assert "The action is succeeded" in text_of(again)
    assert status_of(action) == "succeeded"


NEEDS = {
    "approve": "decide_jobaction",
    "deny": "decide_jobaction",
    "happened": "settle_jobaction",
    "not_happened": "settle_jobaction",
}


def _decidable(act: str) -> JobAction:
    return make_action() if act in ("approve", "deny") else unknown()


@pytest.mark.parametrize("act", NEEDS)
def test_a_decision_needs_its_own_permission(login: Login, act: str) -> None:
    action, before = _decidable(act), _decidable(act).status
    others = {*NEEDS.values(), "change_buildjob", "force_fail_buildjob"} - {NEEDS[act]}
    stranger = login(*SEES, *others, name="stranger")
    own = login(*SEES, NEEDS[act], name="own")

    assert post(stranger, act, action, reason="x").status_code == 403
    assert stranger.get(url(act), {"id": str(action.pk)}).status_code == 403
    assert url(act) not in html_of(stranger.get(page_of(action.job)))
    assert status_of(action) == before
    assert url(act) in html_of(own.get(page_of(action.job)))
    assert post(own, act, action, reason="x").status_code == 200
    assert status_of(action) != before


@pytest.mark.parametrize("act", NEEDS)
def test_a_decision_without_the_csrf_token_is_refused(login: Login, act: str) -> None:
    action = _decidable(act)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = login(*SEES, NEEDS[act]).cookies

    assert post(strict, act, action, reason="x").status_code == 403


def test_who_cannot_see_the_content_cannot_approve_it(login: Login) -> None:
    action = make_action()
    blind = login("view_buildjob", "view_jobaction", "decide_jobaction")

    page = blind.get(page_of(action.job))

    assert "(needs: view payload)" in text_of(page)
    assert "anna@example.org" not in text_of(page)
    assert url("approve") not in html_of(page)
    assert post(blind, "approve", action).status_code == 403
    assert url("deny") in html_of(page)
    assert "anna" not in text_of(blind.get(url("deny"), {"id": str(action.pk)}))


def test_without_the_permission_to_see_actions_their_job_says_so(login: Login) -> None:
    action = make_action()
    viewer = login("view_buildjob", "view_payload")

    page = text_of(viewer.get(page_of(action.job)))

    assert "(needs: view action)" in page
    assert "Mail to Anna" not in page
    assert viewer.get(ACTIONS).status_code == 403


def test_no_secret_leaves_by_an_action_or_its_receipt(root: Client) -> None:
    job = make_job(JobStatus.WAITING_APPROVAL)
    action = make_action(job)
    done = make_action(
        job, ActionStatus.SUCCEEDED, receipt={"id": "m-1", "session_token": "hunter3"}
    )

    for address in (page_of(job), page_of(action), page_of(done), url("approve")):
        page = text_of(root.get(address, {"id": str(action.pk)}))
        assert "hunter" not in page, address
    assert '"id": "m-1"' in text_of(root.get(page_of(job)))


def test_nothing_that_an_action_says_becomes_markup(root: Client) -> None:
    action = make_action(
        title=HOSTILE,
        key=HOSTILE,
        content={"text": HOSTILE},
        error_msg=HOSTILE,
        reason=HOSTILE,
        decided_by=HOSTILE,
    )

    for address in (page_of(action.job), page_of(action), ACTIONS, url("approve")):
        assert HOSTILE not in html_of(root.get(address, {"id": str(action.pk)}))


def test_the_list_shows_what_waits_for_a_person_reviews_first(root: Client) -> None:
    settle = unknown()
    done = make_action(make_job(), ActionStatus.SUCCEEDED)
    review = make_action()

    waiting = root.get(ACTIONS).context["cl"].result_list
    every = root.get(ACTIONS, {"status": "all"}).context["cl"].result_list
    one = root.get(ACTIONS, {"status": "succeeded"}).context["cl"].result_list

    assert list(waiting) == [review, settle]
    assert list(every) == [review, settle, done]
    assert list(one) == [done]


def test_nothing_is_decided_from_the_list(root: Client) -> None:
    action = make_action()

    root.post(
        ACTIONS, {"action": "approve", "_selected_action": str(action.pk), "index": "0"}
    )

    assert status_of(action) == "awaiting_review"
    assert 'name="action"' not in html_of(root.get(ACTIONS))


def test_the_page_of_an_action_tells_all_of_it(root: Client) -> None:
    page = text_of(root.get(page_of(unknown())))

    for words in (
        "Mail to Anna",
        "outcome unknown",
        "Nobody knows whether this happened.",
        "its run ended",
        "It did not happen",
    ):
        assert words in page, words


def test_a_list_costs_the_same_for_one_action_and_for_many(root: Client) -> None:
    make_action()
    root.get(ACTIONS)
    with CaptureQueriesContext(connection) as few:
        root.get(ACTIONS)
    for _ in range(8):
        make_action()
    with CaptureQueriesContext(connection) as many:
        root.get(ACTIONS)

    assert len(many) == len(few) <= 8


@pytest.mark.parametrize("identifier", ["nonsense", "1", "0" * 32])
def test_an_action_that_does_not_exist_is_an_answer_not_a_crash(
    root: Client, identifier: str
) -> None:
    for address in (f"{ACTIONS}{identifier}/change/", url("approve")):
        assert root.get(address, {"id": identifier}).status_code == 302
    assert root.get(ACTIONS, {"job": identifier}).status_code in (200, 302)
