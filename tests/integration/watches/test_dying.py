"""Does a check that dies anywhere act exactly once about what it has found?"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from buildqueue.builds import watchchecks, watches
from buildqueue.exceptions import InvalidTransition
from buildqueue.executors.watching import enqueue_due_checks
from buildqueue.models import Agent, BuildJob, SourceWatch
from buildqueue.queue import recovery, verbs
from buildqueue.worker import runner
from tests.support.attempts import let_lease_end
from tests.support.gitrepository import Repository
from tests.support.jobs import fresh
from tests.support.killing import MOST, all_or_nothing, killed_before
from tests.support.races import somebody_waits
from tests.support.waiting import wait_until

from .conftest import (
    ANNA,
    MakeWatch,
    built_from,
    checks,
    claimed,
    look,
    now_is,
    proposed,
    updates,
)

pytestmark = pytest.mark.usefixtures("committed")


def test_asking_for_checks_is_all_or_nothing(make_watch: MakeWatch) -> None:
    watch = make_watch()
    before = now_is(watch).due_at

    all_or_nothing(
        enqueue_due_checks,
        lambda: len(checks()) == 1 and now_is(watch).due_at > before,
    )


@pytest.mark.parametrize("verb", [watches.pause_watch, watches.resume_watch])
def test_what_people_do_is_all_or_nothing(
    make_watch: MakeWatch, verb: Callable[..., SourceWatch]
) -> None:
    """Row M41: a watch is active and due, or paused; there is nothing in between."""
    watch = make_watch()
    wanted = "paused"
    if verb is watches.resume_watch:
        watches.pause_watch(watch, actor=ANNA)
        wanted = "active"

    all_or_nothing(
        lambda: verb(watch, actor=ANNA), lambda: now_is(watch).status == wanted
    )
    assert enqueue_due_checks() == (1 if wanted == "active" else 0)


def test_a_watch_that_is_made_is_made_whole(make_watch: MakeWatch) -> None:
    all_or_nothing(make_watch, lambda: SourceWatch.objects.count() == 1)

    assert enqueue_due_checks() == 1


def test_removing_a_watch_is_all_or_nothing(make_watch: MakeWatch) -> None:
    watch = make_watch()
    look(watch)

    all_or_nothing(
        lambda: watches.remove_watch(watch, actor=ANNA),
        lambda: proposed(watch) == [] and not SourceWatch.objects.exists(),
    )


@pytest.mark.parametrize("mode", ["update", "propose"])
def test_a_check_that_is_killed_at_every_statement_acts_once(
    make_watch: MakeWatch, repo: Repository, agent: Agent, mode: str
) -> None:
    """One life of one check: each attempt dies a statement later than the one before."""
    built_from(agent, repo.head())
    watch = make_watch(mode=mode)
    commit = repo.commit({"main.py": "print(2)\n"})
    job = watches.check_now(watch, actor=ANNA)
    BuildJob.objects.filter(pk=job.pk).update(max_attempts=MOST)

    for number in range(1, MOST):
        taken = claimed(job)
        if not killed_before(number, partial(runner.run, taken)):
            break
        assert len(updates(agent)) + len(proposed(watch)) <= 1
        if fresh(job).completed_at:
            break
        let_lease_end(job)
        recovery.rescue_expired()
        BuildJob.objects.filter(pk=job.pk).update(due_at=timezone.now())

    ended = fresh(job)
    assert ended.status == "done"
    assert ended.attempt > 10, "it was hardly ever killed"
    assert (ended.result or {})["did"] == mode
    assert len(updates(agent)) == (1 if mode == "update" else 0)
    assert proposed(watch) == ([] if mode == "update" else [(commit, "open")])
    assert (now_is(watch).last_commit, now_is(watch).failures) == (commit, 0)


def test_a_check_that_dies_too_often_is_a_failure_of_its_watch(
    make_watch: MakeWatch,
) -> None:
    watch = make_watch()
    job = watches.check_now(watch, actor=ANNA)

    while fresh(job).completed_at is None:
        claimed(job)
        let_lease_end(job)
        recovery.rescue_expired()

    assert (now_is(watch).failures, now_is(watch).status) == (1, "active")
    assert now_is(watch).due_at > timezone.now() + timedelta(minutes=1)


def test_who_fails_a_check_while_it_writes_waits_for_it_and_neither_for_ever(
    make_watch: MakeWatch, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check and who ends it lock job and watch in one order, so none is a victim.

    When what is written is committed either may come first: the other is told.
    """
    watch = make_watch()
    taken = claimed(watches.check_now(watch, actor=ANNA))
    write = watchchecks.found
    elsewhere = ThreadPoolExecutor(1)

    def fail() -> str:
        try:
            return verbs.force_fail(taken.pk, actor=ANNA, reason="enough").status
        except InvalidTransition as late:
            return str(late.found)
        finally:
            connections.close_all()

    failing = []

    def write_and_be_failed(*args: Any) -> Any:
        written = write(*args)
        failing.append(elsewhere.submit(fail))
        wait_until(somebody_waits)
        return written

    monkeypatch.setattr(watchchecks, "found", write_and_be_failed)
    with elsewhere:
        runner.run(taken)

    ended = fresh(taken).status
    assert ended in {"failed", "done"}
    assert [each.result() for each in failing] == [ended]
    found = now_is(watch)
    assert (found.last_commit, found.failures) == (repo.head(), int(ended == "failed"))
