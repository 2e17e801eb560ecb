"""Is every watch that is due looked at, once, and nothing else?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from buildqueue.builds import watchchecks, watches
from buildqueue.executors.watching import enqueue_due_checks
from buildqueue.models import Agent, BuildJob, SourceWatch
from buildqueue.queue import verbs
from buildqueue.testing import frozen_clock
from tests.support.attempts import elsewhere
from tests.support.races import race

from .conftest import ANNA, MakeWatch, checks, now_is

pytestmark = pytest.mark.usefixtures("committed")


def many(agent: Agent, count: int) -> list[SourceWatch]:
    """Have the agent follow so many branches, all of them due."""
    return SourceWatch.objects.bulk_create(
        SourceWatch(agent=agent, git_url="https://example.org/a.git", ref=f"b{number}")
        for number in range(count)
    )


def test_a_watch_that_is_due_gets_one_check_and_its_due_time_moves_on(
    make_watch: MakeWatch, agent: Agent
) -> None:
    with frozen_clock() as clock:
        watch = make_watch(interval_minutes=15)
        clock.advance(1)

        assert enqueue_due_checks() == 1
        assert enqueue_due_checks() == 0

        [check] = checks()
        assert check.payload["watch_id"] == str(watch.pk)
        assert (check.owner_id, check.serial_key) == ("1", f"watch:{watch.pk}")
        assert now_is(watch).due_at == clock.now + timedelta(minutes=15)


def test_a_watch_whose_check_is_open_gets_no_second_one(make_watch: MakeWatch) -> None:
    watch = make_watch()
    enqueue_due_checks()
    past = timezone.now() - timedelta(hours=1)
    SourceWatch.objects.update(due_at=past)

    assert enqueue_due_checks() == 1

    assert len(checks()) == 1
    assert now_is(watch).due_at > past, "it would stand in the way of the others"


def test_a_check_that_has_ended_is_followed_by_another(make_watch: MakeWatch) -> None:
    make_watch()
    enqueue_due_checks()
    verbs.cancel(checks()[0].pk, actor=ANNA)
    SourceWatch.objects.update(due_at=timezone.now() - timedelta(seconds=1))

    enqueue_due_checks()

    assert [check.status for check in checks()] == ["cancelled", "pending"]


def test_what_a_person_has_paused_is_left_alone(make_watch: MakeWatch) -> None:
    """Row M41: the duty revives nothing that a person has ended."""
    watch = watches.pause_watch(make_watch(), actor=ANNA, reason="too noisy")

    assert enqueue_due_checks() == 0

    assert checks() == []
    found = now_is(watch)
    assert (found.status, found.pause_reason) == ("paused", "paused by anna: too noisy")


def test_what_is_not_due_waits(make_watch: MakeWatch) -> None:
    make_watch()
    SourceWatch.objects.update(due_at=timezone.now() + timedelta(minutes=1))

    assert enqueue_due_checks() == 0
    assert checks() == []


def test_the_watch_of_a_deleted_agent_is_paused(
    make_watch: MakeWatch, agent: Agent
) -> None:
    watch = make_watch()
    Agent.objects.update(deleted_at=timezone.now())

    enqueue_due_checks()

    assert checks() == []
    found = now_is(watch)
    assert (found.status, found.pause_reason) == ("paused", "the agent was deleted")


def test_a_watch_that_something_else_has_written_or_resumed_is_looked_at(
    agent: Agent,
) -> None:
    """Row M41: rows say what is to be done, whoever died between writing two of them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO buildqueue_sourcewatch (agent_id, git_url, ref) "
            "VALUES (%s, 'https://example.org/a.git', 'main')",
            [agent.pk],
        )
        cursor.execute("UPDATE buildqueue_sourcewatch SET status = 'paused'")
        assert enqueue_due_checks() == 0
        cursor.execute("UPDATE buildqueue_sourcewatch SET status = 'active'")

    assert enqueue_due_checks() == 1


def test_duties_that_ask_at_once_queue_each_check_once(agent: Agent) -> None:
    made = many(agent, 40)

    counts = race(4, lambda number: enqueue_due_checks())

    assert sum(counts) == 40
    named = sorted(check.payload["watch_id"] for check in checks())
    assert named == sorted(str(watch.pk) for watch in made)


def test_the_duty_does_not_wait_for_a_watch_that_somebody_holds(agent: Agent) -> None:
    held, free = many(agent, 2)

    with transaction.atomic():
        assert watchchecks.lock(held.pk) is not None
        assert elsewhere(enqueue_due_checks) == 1

    assert [check.payload["watch_id"] for check in checks()] == [str(free.pk)]


def test_more_than_a_batch_is_asked_for_in_one_go(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchchecks, "BATCH", 10)
    monkeypatch.setattr(watchchecks.enqueue_due, "__defaults__", (10,))
    many(agent, 25)

    assert enqueue_due_checks() == 25
    assert len(checks()) == 25


def test_a_check_asked_for_by_a_person_is_the_open_one(make_watch: MakeWatch) -> None:
    watch = make_watch()

    first = watches.check_now(watch, actor=ANNA)
    second = watches.check_now(watch, actor=ANNA)

    assert first.pk == second.pk
    assert BuildJob.objects.count() == 1
