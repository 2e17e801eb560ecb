# ruff: noqa: PT027 -- a host may have no pytest
"""Does `drain` do in a TestCase what a worker does, and leave the test its transaction?

Classes of Django's own, run by unittest's machinery: nothing of pytest is used.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.test import TestCase

from buildqueue import Done, Fail, Retry, Snooze, WaitForChildren, enqueue
from buildqueue.models import BuildJob, JobRun
from buildqueue.queue import verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor
from buildqueue.testing import (
    JobFailed,
    StillBusy,
    drain,
    frozen_clock,
    make_due,
    run_handler,
)
from tests.host.models import Effect
from tests.support.jobs import text

from .kinds import Anything, add, spawning

ANNA = Actor(label="anna")


def _doubled(ctx: Context, payload: Any) -> None:
    Effect.objects.create(label="kept")
    Effect.objects.create(pk=Effect.objects.get().pk, label="refused")


def _tampered_with(ctx: Context, payload: Any) -> Snooze:
    snooze = Snooze(delay_seconds=0)
    object.__setattr__(snooze, "delay_seconds", 3e11)
    return snooze


def _left_open(ctx: Context, payload: Any) -> None:
    Effect.objects.create(label="kept")
    transaction.atomic().__enter__()
    Effect.objects.create(label="dropped")


def _broken_inside(ctx: Context, payload: Any) -> None:
    transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


class Draining(TestCase):
    """What runs, and in which order."""

    def test_jobs_run_in_the_order_of_a_worker_and_are_returned_as_they_are_then(
        self,
    ) -> None:
        add(self, "plain", lambda ctx, payload: Done(result={"n": payload.n}))
        low = enqueue({"kind": "plain", "n": 1}, priority=-1)
        high = enqueue({"kind": "plain", "n": 2}, priority=1)

        first, second = drain()

        assert (first.pk, second.pk) == (high.pk, low.pk)
        assert (first.status, first.result) == ("done", {"n": 2})
        assert JobRun.objects.filter(outcome="succeeded").count() == 2
        assert drain() == []

    def test_what_a_job_enqueues_runs_too_and_in_one_round_it_does_not(self) -> None:
        def chain(ctx: Context, payload: Anything) -> None:
            if left := payload.model_extra and payload.model_extra["left"]:
                enqueue({"kind": "chain", "left": left - 1})

        add(self, "chain", chain)
        enqueue({"kind": "chain", "left": 3})

        assert len(drain(until_empty=False)) == 1
        assert len(drain()) == 3

    def test_only_the_named_queues_are_served(self) -> None:
        add(self, "plain", lambda ctx, payload: None)
        enqueue({"kind": "plain"}, queue="mail")
        enqueue({"kind": "plain"}, queue="other")

        assert [job.queue for job in drain(queues=["mail"])] == ["mail"]

    def test_a_capability_that_a_job_requires_is_here(self) -> None:
        add(self, "plain", lambda ctx, payload: None)
        enqueue({"kind": "plain"}, requires="host:elsewhere")

        [job] = drain()

        assert job.status == "done"

    def test_what_never_ends_is_an_error_that_names_it(self) -> None:
        add(self, "again", lambda ctx, payload: Snooze(delay_seconds=0))
        enqueue({"kind": "again"})

        with self.assertRaisesRegex(StillBusy, "3 runs.*again 3 times"):
            drain(limit=3)

    def test_exactly_so_many_runs_as_allowed_are_no_error(self) -> None:
        add(self, "plain", lambda ctx, payload: None)
        enqueue({"kind": "plain"})

        assert len(drain(limit=1)) == 1


class Failing(TestCase):
    """What a handler that does not end well leaves behind."""

    def test_a_failure_stands_on_the_row_and_is_tried_again_when_due(self) -> None:
        add(self, "raises", self._raise, max_attempts=2)
        enqueue({"kind": "raises"})

        [job] = drain()
        assert (job.status, job.failures) == ("scheduled", 1)
        assert drain() == []
        assert make_due(job) == 1
        [job] = drain()

        assert (job.status, job.error_code) == ("failed", MAX)
        assert "told to raise" in (job.error_msg or "")

    def test_the_first_failure_is_raised_with_its_traceback_when_it_is_wanted(
        self,
    ) -> None:
        add(self, "raises", self._raise)
        enqueue({"kind": "raises"})

        with self.assertRaises(JobFailed) as raised:
            drain(raise_errors=True)

        assert "in _raise" in str(raised.exception)
        assert raised.exception.run.outcome == "failed"

    def test_an_answer_that_fails_is_raised_too(self) -> None:
        add(
            self, "fails", lambda ctx, payload: Fail(reason="no such file", code="gone")
        )
        enqueue({"kind": "fails"})

        with self.assertRaisesRegex(JobFailed, "gone: no such file"):
            drain(raise_errors=True)

    def test_a_refused_statement_costs_itself_and_nothing_of_the_test(self) -> None:
        add(self, "doubled", _doubled)
        enqueue({"kind": "doubled"})

        [job] = drain()

        assert (job.status, job.failures) == ("scheduled", 1)
        assert "IntegrityError" in (job.error_msg or "")
        assert Effect.objects.get().label == "kept"

    def test_a_refusal_that_a_handler_catches_does_not_matter(self) -> None:
        def catches(ctx: Context, payload: Any) -> Done:
            Effect.objects.create(label="first")
            taken = Effect.objects.get().pk
            with suppress(IntegrityError):
                Effect.objects.create(pk=taken)
            with transaction.atomic():
                Effect.objects.create(label="second")
            with suppress(IntegrityError), transaction.atomic(savepoint=False):
                Effect.objects.create(label="dropped")
                Effect.objects.create(pk=taken)
            with suppress(IntegrityError):
                Effect.objects.bulk_create([Effect(label="none"), Effect(pk=taken)])
            with suppress(ValueError), ctx.step("fails"):
                Effect.objects.create(label="of a step")
                raise ValueError
            with ctx.step("goes well"):
                Effect.objects.create(label="third")
            return Done(result={})

        add(self, "catches", catches)
        enqueue({"kind": "catches"})

        [job] = drain()

        assert (job.status, job.error_msg) == ("done", None)
        kept = Effect.objects.order_by("pk").values_list("label", flat=True)
        assert list(kept) == ["first", "second", "third"]

    def test_a_block_that_a_handler_leaves_open_is_rolled_back(self) -> None:
        add(self, "left_open", _left_open)
        enqueue({"kind": "left_open"})

        [job] = drain()

        assert job.status == "done"
        assert Effect.objects.get().label == "kept"

    def test_a_broken_block_that_is_left_open_is_rolled_back(self) -> None:
        add(self, "broken", _broken_inside)
        enqueue({"kind": "broken"})

        [job] = drain()

        assert (job.status, job.failures) == ("scheduled", 1)
        assert "division by zero" in (job.error_msg or "")

    def test_what_the_database_does_not_take_fails_the_job(self) -> None:
        add(self, "odd", _tampered_with)
        enqueue({"kind": "odd"})

        [job] = drain()

        assert (job.status, job.error_code) == ("failed", "outcome_refused")

    def test_what_it_prints_is_its_log(self) -> None:
        def talk(ctx: Context, payload: Any) -> None:
            ctx.log("by the context")
            print("by print \x00", "x" * 20_000)

        add(self, "talks", talk)
        enqueue({"kind": "talks"})

        [job] = drain()

        assert text(job).startswith("by the context\nby print ␀ xxx")
        assert text(job).endswith("x" * 20000 + "\n")

    @staticmethod
    def _raise(ctx: Context, payload: Any) -> None:
        raise ValueError("told to raise")


class Families(TestCase):
    """What follows a commit elsewhere happens in a test that never commits."""

    def test_a_parent_is_woken_by_its_last_child(self) -> None:
        add(self, "child", lambda ctx, payload: None)
        add(self, "parent", spawning(WaitForChildren(), "child"))
        enqueue({"kind": "parent"})

        parent, child = drain()

        assert (parent.status, parent.attempt) == ("done", 2)
        assert child.status == "done"

    def test_the_other_children_of_a_parent_that_failed_are_cancelled(self) -> None:
        add(self, "bad", lambda ctx, payload: Fail(reason="bad"))
        add(self, "good", lambda ctx, payload: None)
        add(self, "parent", spawning(WaitForChildren(), "bad", "good"))
        enqueue({"kind": "parent"})

        ran = drain()

        assert [job.kind for job in ran] == ["parent", "bad"]
        assert ran[0].error_code == "child_failed"
        assert BuildJob.objects.get(kind="good").status == "cancelled"

    def test_grandchildren_are_cancelled_with_them(self) -> None:
        add(self, "leaf", lambda ctx, payload: Snooze(delay_seconds=600))
        add(self, "middle", spawning(WaitForChildren(), "leaf"))
        add(self, "root", spawning(WaitForChildren(), "middle"))
        root = enqueue({"kind": "root"})
        drain()

        verbs.cancel(root.pk, actor=ANNA)

        assert drain() == []
        found = BuildJob.objects.values_list("status", flat=True)
        assert list(found) == ["cancelled"] * 3

    def test_the_final_hook_runs_once_with_the_end(self) -> None:
        ended: list[str] = []
        add(
            self,
            "hooked",
            lambda ctx, payload: None,
            on_final=lambda job: ended.append(job.status),
        )
        enqueue({"kind": "hooked"})

        drain()

        assert ended == ["done"]


class Time(TestCase):
    """What comes due, by a clock that the test moves."""

    def test_a_scheduled_job_runs_when_the_clock_has_come_to_it(self) -> None:
        add(self, "plain", lambda ctx, payload: None)
        with frozen_clock() as clock:
            enqueue({"kind": "plain"}, due_at=clock.now + timedelta(hours=1))
            clock.advance(3599)
            assert drain() == []
            clock.advance(1)
            [job] = drain()

            assert (job.status, job.completed_at) == ("done", clock.now)

    def test_a_drain_that_advances_stops_at_each_due_time(self) -> None:
        moments = []

        def look(ctx: Context, payload: Any) -> Retry | None:
            moments.append((clock.now - began).total_seconds())
            return Retry(reason="later", delay_seconds=10) if len(moments) < 3 else None

        add(self, "looks", look)
        with frozen_clock() as clock:
            began = clock.now
            enqueue({"kind": "looks"})
            drain(advance=timedelta(minutes=1))

            assert moments == [0, 10, 20]
            assert (clock.now - began).total_seconds() == 60

    def test_a_lease_that_is_over_by_that_clock_is_rescued(self) -> None:
        add(self, "plain", lambda ctx, payload: None)
        with frozen_clock() as clock:
            left = run_handler("plain").job
            clock.advance(24 * 3600)
            [job] = drain()

        assert (job.pk, job.status, job.crashes) == (left.pk, "done", 1)

    def test_to_advance_a_clock_that_runs_is_refused(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "frozen_clock"):
            drain(advance=1)


MAX = "max_attempts_exhausted"
