"""Row X17: how long does a failing watch wait, and when does it give up?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from buildqueue.builds import watches
from buildqueue.builds.watchchecks import backoff_minutes
from buildqueue.executors.watching import enqueue_due_checks
from buildqueue.models import BuildJob
from buildqueue.testing import frozen_clock
from tests.support.gitrepository import Repository

from .conftest import ANNA, MakeWatch, checks, look, now_is, run

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.parametrize(
    ("failures", "minutes"),
    [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60), (10_000, 60)],
)
def test_the_wait_doubles_up_to_an_hour(failures: int, minutes: int) -> None:
    assert backoff_minutes(failures) == minutes


def test_each_failure_in_a_row_waits_longer_and_the_fifth_pauses_the_watch(
    make_watch: MakeWatch,
) -> None:
    watch = make_watch(ref="nowhere", interval_minutes=1)
    with frozen_clock() as clock:
        clock.advance(3600)
        for failures, minutes in [(1, 2), (2, 4), (3, 8), (4, 16)]:
            assert enqueue_due_checks() == 1
            check = run(checks()[-1])

            found = now_is(watch)
            assert check.status == "failed"
            assert (found.status, found.failures) == ("active", failures)
            assert found.last_error == check.error_msg
            assert found.due_at == clock.now + timedelta(minutes=minutes)
            clock.advance(timedelta(minutes=minutes, seconds=-1))
            assert enqueue_due_checks() == 0, "it was asked for before its time"
            clock.advance(1)
        enqueue_due_checks()
        run(checks()[-1])

        found = now_is(watch)
        assert (found.status, found.failures) == ("paused", 5)
        assert (found.pause_reason or "").startswith("5 checks in a row failed")
        clock.advance(timedelta(days=30))
        assert enqueue_due_checks() == 0
    assert len(checks()) == 5
    assert {check.attempt for check in checks()} == {1}, "the queue tried again, too"


def test_a_person_resumes_it_with_its_failures_forgotten(
    make_watch: MakeWatch, repo: Repository
) -> None:
    watch = make_watch(ref="later")
    for _ in range(5):
        look(watch)
    assert now_is(watch).status == "paused"
    repo.branch("later", repo.head() or "")

    resumed = watches.resume_watch(watch, actor=ANNA)

    assert (resumed.status, resumed.failures) == ("active", 0)
    assert resumed.pause_reason is None
    assert enqueue_due_checks() == 1
    assert run(checks()[-1]).status == "done"


def test_a_check_that_succeeds_ends_the_row_of_failures(
    make_watch: MakeWatch, repo: Repository
) -> None:
    watch = make_watch(ref="later", interval_minutes=30)
    for _ in range(4):
        look(watch)
    repo.branch("later", repo.head() or "")

    look(watch)
    found = now_is(watch)
    assert (found.failures, found.last_error, found.status) == (0, None, "active")
    repo.delete_branch("later")
    look(watch)

    assert (now_is(watch).failures, now_is(watch).status) == (1, "active")


def test_a_check_that_ends_in_any_other_way_than_done_counts_once(
    make_watch: MakeWatch,
) -> None:
    """A payload of another time, for one: its handler is never reached."""
    watch = make_watch()
    job = watches.check_now(watch, actor=ANNA)
    BuildJob.objects.filter(pk=job.pk).update(payload={**job.payload, "later": 1})

    assert run(job).status == "failed"

    assert now_is(watch).failures == 1
