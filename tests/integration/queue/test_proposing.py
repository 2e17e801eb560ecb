"""Is an action proposed once for its key, as it was meant, and are people told of it?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from buildqueue import conf
from buildqueue.exceptions import PermanentError
from buildqueue.models import JobAction, Notice
from buildqueue.queue import actions, verbs
from buildqueue.queue.context import Context
from buildqueue.states import ActionStatus
from tests.support.acting import ANNA, BERT, MAIL, Provider, fresh_action, waiting
from tests.support.attempts import next_attempt, run_again, run_of
from tests.support.jobs import story
from tests.support.races import race

S = ActionStatus

pytestmark = pytest.mark.usefixtures("committed")


def test_an_action_is_proposed_once_for_its_key(ctx: Context) -> None:
    first = ctx.propose("mail", MAIL, title="Mail to Carl")
    with run_of(next_attempt(ctx)) as second:
        again = second.propose(
            "mail", dict(reversed(MAIL.items())), title="Other words"
        )

    assert again.pk == first.pk
    assert (again.status, again.title, again.attempt) == (
        S.AWAITING_REVIEW,
        "Mail to Carl",
        1,
    )
    assert again.content == MAIL
    assert again.content_hash == actions.hash_of(MAIL)
    assert [title for kind, title in story(ctx.job) if kind == "action_proposed"] == [
        "Mail to Carl"
    ]


def test_twenty_threads_that_propose_make_one_action(ctx: Context) -> None:
    found = race(20, lambda _: ctx.propose("mail", MAIL).pk)

    assert set(found) == {JobAction.objects.get().pk}
    assert [kind for kind, _ in story(ctx.job)] == ["action_proposed"]


def test_other_content_under_the_same_key_is_refused(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL)

    with pytest.raises(PermanentError) as refused:
        ctx.propose("mail", MAIL | {"to": "everybody"})

    assert refused.value.code == "action_changed"
    assert fresh_action(action).content == MAIL


@pytest.mark.parametrize("key", ["", "a" * 201, "nul \x00", "half \ud800"])
def test_a_key_that_cannot_be_kept_is_refused(ctx: Context, key: str) -> None:
    with pytest.raises(ValueError, match="an action's key must have 1 to 200"):
        ctx.propose(key, MAIL)

    assert not JobAction.objects.exists()


def test_texts_in_what_is_proposed_are_made_fit(ctx: Context) -> None:
    action = ctx.propose("mail", {"text": "a\x00\ud800"}, title="nul \x00")

    assert (fresh_action(action).content, fresh_action(action).title) == (
        {"text": "a␀?"},
        "nul ␀",
    )
    assert ctx.propose("mail", {"text": "a\x00\ud800"}).pk == action.pk


def test_what_is_proposed_in_a_step_commits_with_it(ctx: Context) -> None:
    def work() -> None:
        with ctx.step("ask"):
            ctx.propose("mail", MAIL)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()

    assert not JobAction.objects.exists()
    assert "action_proposed" not in dict(story(ctx.job))


def test_what_needs_no_review_is_approved_at_once_and_asks_nobody(
    ctx: Context, pager: None
) -> None:

    action = ctx.propose("mail", MAIL, review=False)

    assert action.status == S.APPROVED
    assert not Notice.objects.exists()


def test_what_needs_a_review_tells_people_and_so_does_a_retry(
    ctx: Context, pager: None
) -> None:
    action = waiting(ctx)
    actions.deny(
        action.pk, content_hash=action.content_hash, actor=ANNA, reason="not now"
    )
    run_again(ctx.job, lambda run: run.perform("mail", Provider({})))
    verbs.retry(ctx.job.pk, actor=BERT)

    asked = Notice.objects.filter(event="approval.asked")
    assert asked.count() == 2
    assert fresh_action(action).status == S.AWAITING_REVIEW


@pytest.mark.parametrize("seconds", [0, -1])
def test_an_action_that_is_over_before_it_begins_is_refused(
    ctx: Context, seconds: int
) -> None:
    with pytest.raises(ValueError, match="a timedelta above 0"):
        ctx.propose("mail", MAIL, expires_in=timedelta(seconds=seconds))


def test_an_action_says_how_long_it_may_wait(ctx: Context) -> None:
    short = ctx.propose("short", MAIL, expires_in=timedelta(minutes=5))
    usual = ctx.propose("usual", MAIL)

    assert short.expires_at is not None
    assert usual.expires_at is not None
    seconds = conf.get().action_expiry_seconds - 300
    found = (usual.expires_at - short.expires_at).total_seconds()
    assert found == pytest.approx(seconds, abs=60)
