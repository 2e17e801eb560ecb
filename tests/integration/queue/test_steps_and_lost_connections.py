"""Is a step known to be done or not, when its connection was lost on the way?"""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connection
from django.db import transaction as transactions

from buildqueue.exceptions import LostLeaseError
from buildqueue.models import BuildJob
from buildqueue.queue.context import Context
from buildqueue.queue.context.steps import Step
from tests.host.models import Effect
from tests.support.attempts import elsewhere, next_attempt, run_of, taken_over
from tests.support.jobs import story
from tests.support.races import PATIENCE
from tests.support.steps import charge_card, checkpoints, effects, run_step

pytestmark = pytest.mark.usefixtures("committed")


def _backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def _terminate(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])


def test_a_connection_cut_in_the_body_fails_the_step_and_nothing_is_stored(
    ctx: Context,
) -> None:
    def be_cut() -> None:
        Effect.objects.create(label="charge")
        elsewhere(_terminate, _backend())
        Effect.objects.create(label="charge")

    with pytest.raises(OperationalError), ctx.step("charge"):
        be_cut()

    assert (effects(), checkpoints(ctx)) == (0, {})
    assert story(ctx.job)[-1] == ("step_failed", "charge")


class _Commit:
    """Cuts the connection in the driver's commit, before or after it comes through."""

    def __init__(self, patch: pytest.MonkeyPatch, *, comes_through: bool) -> None:
        self.calls = 0
        self._comes_through = comes_through
        self._real = psycopg.Connection.commit
        patch.setattr(psycopg.Connection, "commit", lambda c: self._commit(c))

    def _commit(self, session: psycopg.Connection[Any]) -> None:
        self.calls += 1
        if self.calls > 1:
            self._real(session)
            return
        if self._comes_through:
            self._real(session)
        session.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def test_a_commit_that_came_through_and_whose_answer_was_lost_counts(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = _Commit(monkeypatch, comes_through=True)
    bodies = 0

    with ctx.step("charge") as step:
        bodies += 1
        Effect.objects.create(label="charge")
        step.result = 40
    with ctx.step("next"):
        Effect.objects.create(label="next")

    assert (cut.calls, bodies) == (2, 1)
    assert (effects("charge"), effects("next")) == (1, 1)
    assert checkpoints(ctx) == {"charge": 40, "next": None}
    assert "step_failed" not in dict(story(ctx.job))


def test_a_commit_that_did_not_come_through_raises_and_is_left_to_the_next_attempt(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = _Commit(monkeypatch, comes_through=False)
    bodies: list[Step] = []

    def charge(step: Step) -> None:
        bodies.append(step)
        charge_card(step)

    with pytest.raises(OperationalError):
        run_step(ctx, "charge", charge)

    assert (cut.calls, len(bodies)) == (1, 1)
    assert (effects(), checkpoints(ctx)) == (0, {})
    assert story(ctx.job)[-1] == ("step_failed", "charge")
    with run_of(next_attempt(ctx)) as second, second.step("charge"):
        Effect.objects.create(label="charge")
    assert effects() == 1


def test_a_checkpoint_of_an_earlier_lease_does_not_prove_a_lost_commit(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ctx.step("look", again=True):
        pass
    with run_of(next_attempt(ctx)) as second:
        _Commit(monkeypatch, comes_through=False)
        with pytest.raises(OperationalError), second.step("look", again=True):
            Effect.objects.create(label="look")

    assert effects() == 0


def test_a_lost_lease_is_told_by_the_last_statement_before_any_commit_is_tried(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[object] = []

    def charge(step: Step) -> None:
        charge_card(step)
        elsewhere(taken_over, ctx.job)
        monkeypatch.setattr(psycopg.Connection, "commit", commits.append)

    with pytest.raises(LostLeaseError):
        run_step(ctx, "charge", charge)
    monkeypatch.undo()

    assert commits == []
    assert (effects(), checkpoints(ctx)) == (0, {})


def test_a_fault_of_the_hosts_own_at_the_commit_fails_the_step(ctx: Context) -> None:
    """A deferred constraint of the host speaks after the fence has."""

    def charge(step: Step) -> None:
        charge_card(step)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO pair VALUES (1, 2)")

    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE pair (id int PRIMARY KEY, other int REFERENCES pair "
            "DEFERRABLE INITIALLY DEFERRED)"
        )
    try:
        with pytest.raises(IntegrityError):
            run_step(ctx, "charge", charge)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE pair")

    assert (effects(), checkpoints(ctx)) == (0, {})
    assert story(ctx.job)[-1] == ("step_failed", "charge")


def test_a_lock_that_is_waited_for_in_vain_is_not_taken_for_a_commit(
    ctx: Context,
) -> None:
    held, tried = threading.Event(), threading.Event()

    def hold() -> None:
        with transactions.atomic():
            BuildJob.objects.select_for_update(no_key=True).get(pk=ctx.job.pk)
            held.set()
            assert tried.wait(PATIENCE)

    def load(step: Step) -> None:
        Effect.objects.create(label="second")
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '200ms'")
        holder.start()
        assert held.wait(PATIENCE)

    holder = threading.Thread(target=elsewhere, args=[hold])
    with ctx.step("load", again=True):
        Effect.objects.create(label="first")
    try:
        with pytest.raises(OperationalError, match="lock timeout"):
            run_step(ctx, "load", load, again=True)
    finally:
        tried.set()
        holder.join()

    assert (effects("first"), effects("second")) == (1, 0)
    assert story(ctx.job)[-1] == ("step_failed", "load")


def test_the_commit_of_an_earlier_use_does_not_prove_that_of_a_later_one(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ctx.step("load", again=True):
        Effect.objects.create(label="first")
    _Commit(monkeypatch, comes_through=False)

    with pytest.raises(OperationalError), ctx.step("load", again=True):
        Effect.objects.create(label="second")

    assert (effects("first"), effects("second")) == (1, 0)
