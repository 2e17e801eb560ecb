"""Does a step count once, however many runs and threads are at it at once?"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from buildqueue.exceptions import LostLeaseError, PermanentError
from buildqueue.models import BuildJob
from buildqueue.queue.context import Context
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.host.models import Effect
from tests.support.attempts import elsewhere, taken_over
from tests.support.jobs import story
from tests.support.races import PATIENCE, race, somebody_waits
from tests.support.steps import checkpoints, effects
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("committed")


def test_of_a_stale_and_a_new_run_at_one_step_only_the_new_one_counts(
    committed: None,
) -> None:
    for _ in range(20):
        job = make_job(JobStatus.IN_PROGRESS)
        stale = job.lease_id
        assert stale is not None
        leases_of = [stale, uuid.UUID(str(elsewhere(taken_over, job)))]

        def run(number: int, job: BuildJob = job, own: Any = leases_of) -> str:
            ctx = Context(job=job, lease_id=own[number])
            try:
                with ctx.step("charge"):
                    Effect.objects.create(label=f"{job.pk} {number}")
            except LostLeaseError:
                return "lost"
            return "done"

        assert race(2, run) == ["lost", "done"]
        assert effects(f"{job.pk} 0") == 0
        assert effects(f"{job.pk} 1") == 1


def _twice(act: Callable[[Callable[[], object]], Any]) -> list[Any]:
    """Have two threads act at once; what they are given waits until both are inside."""
    both = threading.Barrier(2)

    def run(_: int) -> Any:
        try:
            return act(lambda: both.wait(PATIENCE))
        except PermanentError as error:
            return error.code

    return race(2, run)


@pytest.mark.parametrize("transaction", [True, False])
def test_a_step_that_two_threads_run_at_once_counts_once(
    ctx: Context, transaction: bool
) -> None:
    def charge(meet: Callable[[], object]) -> str:
        with ctx.step("charge", transaction=transaction) as step:
            assert not step.done
            meet()
            if transaction:
                Effect.objects.create(label="charge")
            step.result = threading.get_ident()
        assert checkpoints(ctx) == {"charge": threading.get_ident()}
        return "done"

    assert sorted(_twice(charge)) == ["done", "step_repeated"]

    assert effects() == (1 if transaction else 0)
    kinds = [kind for kind, _ in story(ctx.job)]
    assert (kinds.count("step_finished"), kinds.count("step_failed")) == (1, 1)


def test_what_two_threads_have_done_once_is_the_same_to_both(ctx: Context) -> None:
    def charge(meet: Callable[[], object]) -> int:
        meet()
        Effect.objects.create(label="charge")
        return threading.get_ident()

    first, second = _twice(lambda meet: ctx.once("charge", charge, meet))

    assert first == second == checkpoints(ctx)["charge"]
    assert effects() == 1


def test_a_step_that_is_repeated_while_its_commit_is_under_way_counts_once(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a handler that catches the error of a commit whose answer was lost."""
    real, under_way = psycopg.Connection.commit, threading.Event()

    def commit(session: psycopg.Connection[Any]) -> None:
        if not under_way.is_set():
            under_way.set()
            wait_until(somebody_waits, message="the repetition waits for the commit")
        real(session)

    def charge(number: int) -> str:
        if number:
            assert under_way.wait(PATIENCE)
        try:
            with ctx.step("charge"):
                Effect.objects.create(label=str(number))
        except PermanentError as error:
            return error.code
        return "done"

    monkeypatch.setattr(psycopg.Connection, "commit", commit)

    assert race(2, charge) == ["done", "step_repeated"]
    assert (effects("0"), effects("1")) == (1, 0)


def test_threads_of_a_handler_may_tell_and_look_through_its_context(
    ctx: Context,
) -> None:
    def work(number: int) -> None:
        ctx.check_lease()
        ctx.progress(number, 4)
        ctx.note(f"thread {number}")
        ctx.checkpoint(state={str(number): True})

    race(4, work)

    assert ctx.state == {str(number): True for number in range(4)}
    notes = [title for kind, title in story(ctx.job) if kind == "note"]
    assert sorted(notes) == [f"thread {number}" for number in range(4)]
