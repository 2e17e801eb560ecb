"""Is an effect and its checkpoint one thing, whatever happens in the middle of it?"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection
from django.db import transaction as transactions
from django.utils import timezone

from buildqueue.exceptions import (
    LostLeaseError,
    NotStorable,
    PermanentError,
    StepTimeLimit,
)
from buildqueue.models import BuildJob, Checkpoint, JobEvent
from buildqueue.queue import leases, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.context.steps import Step
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.host.models import Effect
from tests.support.attempts import elsewhere, next_attempt, run_of, taken_over
from tests.support.jobs import fresh, story
from tests.support.races import PATIENCE, race, somebody_waits
from tests.support.waiting import wait_until

ANNA = Actor(label="anna")
PAST = timedelta(seconds=5)

pytestmark = pytest.mark.usefixtures("committed")


def _effects(label: str | None = None) -> int:
    found = (
        Effect.objects.all() if label is None else Effect.objects.filter(label=label)
    )
    return found.count()


def _stored(ctx: Context) -> dict[str, Any]:
    rows = Checkpoint.objects.filter(job_id=ctx.job.pk)
    return dict(rows.values_list("step", "result"))


def _run(ctx: Context, name: str, body: Callable[[Step], object], **how: bool) -> None:
    with ctx.step(name, **how) as step:
        body(step)


def _charge(step: Step) -> None:
    Effect.objects.create(label="charge")


# -- one thing -----------------------------------------------------------------------


def test_effect_checkpoint_and_event_are_seen_by_others_at_once_and_together(
    ctx: Context,
) -> None:
    def seen() -> tuple[int, int, list[tuple[str, str]]]:
        return _effects(), len(_stored(ctx)), story(ctx.job)

    with ctx.step("charge") as step:
        Effect.objects.create(label="charge")
        step.result = {"amount": 40}
        before = elsewhere(seen)

    assert before == (0, 0, [("step_started", "charge")])
    assert elsewhere(seen) == (
        1,
        1,
        [("step_started", "charge"), ("step_finished", "charge")],
    )
    row = Checkpoint.objects.get()
    assert (row.step, row.result) == ("charge", {"amount": 40})
    assert (row.lease_id, row.attempt) == (ctx.lease_id, 1)


def test_an_exception_takes_everything_back_and_is_told(ctx: Context) -> None:
    def charge(step: Step) -> None:
        _charge(step)
        ctx.checkpoint(state={"charged": True})
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        _run(ctx, "charge", charge)

    assert (_effects(), _stored(ctx), ctx.state) == (0, {}, {})
    assert story(ctx.job) == [("step_started", "charge"), ("step_failed", "charge")]
    assert JobEvent.objects.get(kind="step_failed").detail == {"error": "ValueError"}


def test_what_a_handler_raises_is_not_hidden_by_a_session_that_is_gone(
    ctx: Context,
) -> None:
    def break_it() -> None:
        assert ctx.session is not None
        ctx.session.connection.close()
        raise PermanentError("no such customer", code="no_customer")

    with pytest.raises(PermanentError, match="no such customer"), ctx.step("charge"):
        break_it()


@pytest.mark.parametrize(
    "take",
    [
        lambda job: verbs.cancel(job.pk, actor=ANNA),
        lambda job: verbs.pause(job.pk, actor=ANNA),
        lambda job: verbs.release(job.pk, actor=ANNA, reason="slow"),
        lambda job: verbs.force_fail(job.pk, actor=ANNA, reason="enough"),
        lambda job: recovery.rescue_worker(job.worker),
        taken_over,
        lambda job: BuildJob.objects.filter(pk=job.pk).update(
            lease_until=timezone.now() - PAST
        ),
        lambda job: connection.cursor().execute(
            "DELETE FROM buildqueue_buildjob WHERE id = %s", [job.pk]
        ),
    ],
    ids=["cancel", "pause", "release", "fail", "rescue", "takeover", "over", "deleted"],
)
def test_a_step_whose_lease_is_taken_meanwhile_has_not_happened(
    ctx: Context, take: Callable[[BuildJob], object]
) -> None:
    def charge(step: Step) -> None:
        _charge(step)
        elsewhere(take, ctx.job)

    with pytest.raises(LostLeaseError):
        _run(ctx, "charge", charge)

    assert (_effects(), _stored(ctx)) == (0, {})
    kinds = [kind for kind, _ in story(ctx.job)]
    assert "step_finished" not in kinds
    assert "step_failed" not in kinds


def test_a_step_does_not_begin_without_the_lease(ctx: Context) -> None:
    taken_over(ctx.job)

    with pytest.raises(LostLeaseError), ctx.step("charge"):
        pytest.fail("the body ran")

    assert story(ctx.job) == []


def test_the_fence_is_the_last_word_also_for_what_a_handler_commits_itself(
    ctx: Context,
) -> None:
    def commit_late() -> None:
        with transactions.atomic():
            Effect.objects.create(label="mine")
            ctx.checkpoint(state={"mine": True})
            elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)

    with pytest.raises(DatabaseError) as refused:
        commit_late()

    assert refused.value.__cause__.sqlstate == "BQ001"  # type: ignore[union-attr]
    assert (_effects(), ctx.state) == (0, {})


# -- nothing waits for an open step --------------------------------------------------


def _fill(ctx: Context) -> None:
    """Do in a step all that writes a row which carries the lease."""
    Effect.objects.create(label="open")
    ctx.checkpoint(state={"a": 1}, evidence=["seen"])
    ctx.progress(1, 2, "half")
    ctx.propose("mail", {"to": "anna"})
    ctx.spawn("child", {"kind": "probe"})
    ctx.note("still here")


def test_an_open_step_delays_no_renewal(ctx: Context) -> None:
    with ctx.step("long"):
        _fill(ctx)
        renewed = elsewhere(leases.renew, [ctx.lease_id], timedelta(hours=1))

    assert renewed == {ctx.lease_id}
    assert list(_stored(ctx)) == ["child:child", "long"]
    assert fresh(ctx.job).lease_until > ctx.job.lease_until  # type: ignore[operator]


def test_an_open_step_delays_no_cancel(ctx: Context) -> None:
    def work(step: Step) -> None:
        _fill(ctx)
        elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
        assert fresh(ctx.job).status == JobStatus.CANCELLED

    with pytest.raises(LostLeaseError):
        _run(ctx, "long", work)

    assert (_effects(), _stored(ctx), ctx.state) == (0, {}, {})
    assert not BuildJob.objects.filter(parent=ctx.job).exists()


def test_a_write_inside_a_step_tells_at_once_that_the_lease_is_gone(
    ctx: Context,
) -> None:
    def lose_it() -> None:
        elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
        with pytest.raises(LostLeaseError):
            ctx.checkpoint(state={"late": True})

    with pytest.raises(LostLeaseError), ctx.step("long"):
        lose_it()

    assert ctx.state == {}


# -- once ----------------------------------------------------------------------------


def test_a_later_attempt_finds_the_step_done_with_its_result(ctx: Context) -> None:
    with ctx.step("charge") as step:
        assert not step.done
        Effect.objects.create(label="charge")
        step.result = {"amount": 40}

    with run_of(next_attempt(ctx)) as second, second.step("charge") as step:
        if not step.done:
            pytest.fail("it would be charged twice")

    assert step.result == {"amount": 40}
    assert _effects() == 1
    skipped = JobEvent.objects.get(kind="step_skipped")
    assert (skipped.title, skipped.attempt) == ("charge", 2)
    assert skipped.detail == {"attempt": 1}
    assert Checkpoint.objects.get().attempt == 1


def test_once_calls_its_function_in_one_attempt_only(ctx: Context) -> None:
    def charge(amount: int) -> dict[str, int]:
        Effect.objects.create(label="charge")
        return {"amount": amount}

    assert ctx.once("charge", charge, 40) == {"amount": 40}
    assert ctx.once("charge", charge, 50) == {"amount": 40}
    with run_of(next_attempt(ctx)) as second:
        assert second.once("charge", charge, 60) == {"amount": 40}

    assert _effects() == 1


def test_a_step_of_every_attempt_runs_again_and_keeps_the_last_result(
    ctx: Context,
) -> None:
    with ctx.step("look", again=True) as step:
        step.result = 1
    with run_of(next_attempt(ctx)) as second:
        with second.step("look", again=True) as step:
            assert not step.done
            step.result = 2
        assert _stored(second) == {"look": 2}
        assert Checkpoint.objects.get().lease_id == second.lease_id


def test_a_step_without_a_transaction_keeps_what_it_did_and_may_hold_others(
    ctx: Context,
) -> None:
    with ctx.step("download", transaction=False) as step:
        assert not connection.in_atomic_block
        Effect.objects.create(label="file")
        with ctx.step("note it"):
            Effect.objects.create(label="row")
        step.result = "file"

    assert _stored(ctx) == {"download": "file", "note it": None}

    def upload(step: Step) -> None:
        Effect.objects.create(label="outside")
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        _run(ctx, "upload", upload, transaction=False)

    assert _effects("outside") == 1  # no transaction held it
    assert "upload" not in _stored(ctx)


def test_a_step_without_a_transaction_leaves_no_checkpoint_without_the_lease(
    ctx: Context,
) -> None:
    with pytest.raises(LostLeaseError), ctx.step("download", transaction=False):
        verbs.cancel(ctx.job.pk, actor=ANNA)

    assert _stored(ctx) == {}


@pytest.mark.parametrize("transaction", [True, False])
def test_a_step_inside_a_transaction_is_refused(
    ctx: Context, transaction: bool
) -> None:
    def nest() -> None:
        with ctx.step("inner", transaction=transaction):
            pytest.fail("the inner body ran")

    with pytest.raises(PermanentError) as refused, ctx.step("outer"):
        nest()
    assert refused.value.code == "step_in_transaction"
    with pytest.raises(PermanentError), transactions.atomic():
        nest()
    assert _stored(ctx) == {}


@pytest.mark.parametrize(
    "name", ["", "a" * 201, "nul \x00", "half \ud800", "child:mine", 5, None, ["a"]]
)
def test_a_name_that_cannot_be_kept_is_refused(ctx: Context, name: Any) -> None:
    with pytest.raises(NotStorable, match="a step's name must"), ctx.step(name):
        pytest.fail("the body ran")

    assert story(ctx.job) == []


def test_names_may_be_as_long_as_they_may_and_in_any_script(ctx: Context) -> None:
    names = ["a" * 200, "Größe 大小 🚀"]
    for name in names:
        with ctx.step(name):
            pass

    assert sorted(_stored(ctx)) == sorted(names)


# -- results -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result", [object(), {1, 2}, math.nan, math.inf, timezone.now(), {"a": b"x"}]
)
def test_a_result_that_is_not_json_takes_the_effect_back(
    ctx: Context, result: object
) -> None:
    def charge(step: Step) -> None:
        _charge(step)
        step.result = result

    with pytest.raises((TypeError, ValueError)):
        _run(ctx, "charge", charge)

    assert (_effects(), _stored(ctx)) == (0, {})
    assert story(ctx.job)[-1] == ("step_failed", "charge")


def test_nul_and_half_surrogates_in_a_result_are_stored_as_well_as_can_be(
    ctx: Context,
) -> None:
    with ctx.step("read") as step:
        step.result = {"nul \x00": ["\ud800", "a\x00b", "😀"]}

    assert _stored(ctx) == {"read": {"nul ␀": ["?", "a␀b", "😀"]}}


def test_the_attempt_that_does_a_step_sees_the_result_that_later_ones_see(
    ctx: Context,
) -> None:
    given = {1: ("a", "nul \x00"), "none": None}

    first = ctx.once("read", lambda: given)
    with run_of(next_attempt(ctx)) as second:
        later = second.once("read", lambda: pytest.fail("ran twice"))

    assert first == later == {"1": ["a", "nul ␀"], "none": None}


# -- a connection that is lost ----------------------------------------------------------


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

    assert (_effects(), _stored(ctx)) == (0, {})
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
    assert (_effects("charge"), _effects("next")) == (1, 1)
    assert _stored(ctx) == {"charge": 40, "next": None}
    assert "step_failed" not in dict(story(ctx.job))


def test_a_commit_that_did_not_come_through_raises_and_is_left_to_the_next_attempt(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = _Commit(monkeypatch, comes_through=False)
    bodies: list[Step] = []

    def charge(step: Step) -> None:
        bodies.append(step)
        _charge(step)

    with pytest.raises(OperationalError):
        _run(ctx, "charge", charge)

    assert (cut.calls, len(bodies)) == (1, 1)
    assert (_effects(), _stored(ctx)) == (0, {})
    assert story(ctx.job)[-1] == ("step_failed", "charge")
    with run_of(next_attempt(ctx)) as second, second.step("charge"):
        Effect.objects.create(label="charge")
    assert _effects() == 1


def test_a_checkpoint_of_an_earlier_lease_does_not_prove_a_lost_commit(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ctx.step("look", again=True):
        pass
    with run_of(next_attempt(ctx)) as second:
        _Commit(monkeypatch, comes_through=False)
        with pytest.raises(OperationalError), second.step("look", again=True):
            Effect.objects.create(label="look")

    assert _effects() == 0


def test_a_lost_lease_is_told_by_the_last_statement_before_any_commit_is_tried(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[object] = []

    def charge(step: Step) -> None:
        _charge(step)
        elsewhere(taken_over, ctx.job)
        monkeypatch.setattr(psycopg.Connection, "commit", commits.append)

    with pytest.raises(LostLeaseError):
        _run(ctx, "charge", charge)
    monkeypatch.undo()

    assert commits == []
    assert (_effects(), _stored(ctx)) == (0, {})


def test_a_fault_of_the_hosts_own_at_the_commit_fails_the_step(ctx: Context) -> None:
    """A deferred constraint of the host speaks after the fence has."""

    def charge(step: Step) -> None:
        _charge(step)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO pair VALUES (1, 2)")

    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE pair (id int PRIMARY KEY, other int REFERENCES pair "
            "DEFERRABLE INITIALLY DEFERRED)"
        )
    try:
        with pytest.raises(IntegrityError):
            _run(ctx, "charge", charge)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE pair")

    assert (_effects(), _stored(ctx)) == (0, {})
    assert story(ctx.job)[-1] == ("step_failed", "charge")


# -- many at once -----------------------------------------------------------------------


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
        assert _effects(f"{job.pk} 0") == 0
        assert _effects(f"{job.pk} 1") == 1


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
        assert _stored(ctx) == {"charge": threading.get_ident()}
        return "done"

    assert sorted(_twice(charge)) == ["done", "step_repeated"]

    assert _effects() == (1 if transaction else 0)
    kinds = [kind for kind, _ in story(ctx.job)]
    assert (kinds.count("step_finished"), kinds.count("step_failed")) == (1, 1)


def test_what_two_threads_have_done_once_is_the_same_to_both(ctx: Context) -> None:
    def charge(meet: Callable[[], object]) -> int:
        meet()
        Effect.objects.create(label="charge")
        return threading.get_ident()

    first, second = _twice(lambda meet: ctx.once("charge", charge, meet))

    assert first == second == _stored(ctx)["charge"]
    assert _effects() == 1


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
    assert (_effects("0"), _effects("1")) == (1, 0)


def test_a_step_of_every_attempt_may_be_run_again_in_one(ctx: Context) -> None:
    for number in (1, 2):
        with ctx.step("look", again=True) as step:
            Effect.objects.create(label="look")
            step.result = number

    assert (_effects(), _stored(ctx)) == (2, {"look": 2})


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
            _run(ctx, "load", load, again=True)
    finally:
        tried.set()
        holder.join()

    assert (_effects("first"), _effects("second")) == (1, 0)
    assert story(ctx.job)[-1] == ("step_failed", "load")


def test_the_commit_of_an_earlier_use_does_not_prove_that_of_a_later_one(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ctx.step("load", again=True):
        Effect.objects.create(label="first")
    _Commit(monkeypatch, comes_through=False)

    with pytest.raises(OperationalError), ctx.step("load", again=True):
        Effect.objects.create(label="second")

    assert (_effects("first"), _effects("second")) == (1, 0)


# -- a step that takes too long ----------------------------------------------------------


@pytest.mark.parametrize("transaction", [True, False])
def test_a_step_that_took_too_long_is_refused_at_its_end_where_no_alarm_rings(
    ctx: Context, transaction: bool
) -> None:
    assert ctx.alarm is None

    def load() -> None:
        with ctx.step("load", transaction=transaction, seconds=0.05):
            Effect.objects.create(label="load")
            ends = time.monotonic() + 0.05
            wait_until(lambda: time.monotonic() > ends, message="the time")

    with pytest.raises(StepTimeLimit, match="load") as late:
        load()

    assert late.value.code == "step_timed_out"
    assert _effects() == (0 if transaction else 1)  # no transaction held that
    assert _stored(ctx) == {}
    assert story(ctx.job)[-1] == ("step_failed", "load")
    with ctx.step("load", seconds=PATIENCE) as step:
        assert not step.done
        Effect.objects.create(label="in time")
    assert (_effects("in time"), list(_stored(ctx))) == (1, ["load"])


def test_a_step_that_fails_late_fails_by_what_it_raised(ctx: Context) -> None:
    def load() -> None:
        with ctx.step("load", seconds=1e-9):
            raise PermanentError("no such file", code="no_file")

    with pytest.raises(PermanentError, match="no such file"):
        load()


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
