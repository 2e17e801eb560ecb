# ruff: noqa: PT027 -- a host may have no pytest
"""Does `run_handler` call one handler as a worker would, and show what it left?"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import TestCase

from buildqueue import Done, Fail, Retry, WaitForApproval, WaitForInput, enqueue
from buildqueue.exceptions import (
    InvalidPayload,
    LostLeaseError,
    OutcomeUnknown,
    UnknownKind,
)
from buildqueue.models import JobEvent
from buildqueue.queue import verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor
from buildqueue.queue.questions import Field
from buildqueue.testing import drain, frozen_clock, run_handler
from tests.host.jobs import Probe, probe
from tests.host.models import Effect

from .kinds import add

ANNA = Actor(label="anna")


class Handling(TestCase):
    """One call."""

    def test_what_it_answers_prints_and_leaves_is_returned(self) -> None:
        def work(ctx: Context, payload: Any) -> Done:
            with ctx.step("one") as step:
                step.result = 1
            ctx.checkpoint(state={"seen": ctx.attempt, "old": ctx.state["old"]})
            ctx.note("looked", at="it")
            ctx.propose("mail", {"to": payload.to}, review=False)
            ctx.perform("mail", lambda action: {"id": 9})
            ctx.spawn("more", Probe())
            ctx.log("working")
            return Done(result=ctx.answers)

        add(self, "works", work)

        found = run_handler(
            "works",
            {"to": "bob"},
            attempt=3,
            state={"old": True},
            answers={"name": "x"},
            owner_id="anna",
        )

        assert found.outcome == Done(result={"name": "x"})
        assert found.steps["one"] == 1
        assert found.state == {"seen": 3, "old": True}
        assert [(n.title, n.detail) for n in found.notes] == [LOOKED]
        assert found.actions["mail"].receipt == {"id": 9}
        assert [child.owner_id for child in found.children] == ["anna"]
        assert "working\n" in found.log
        assert (found.job.status, found.job.attempt) == ("in_progress", 3)
        reported = JobEvent.objects.filter(job=found.job, kind="finish")
        assert not reported.exists()

    def test_whose_serial_key_another_holds_is_told(self) -> None:
        run_handler(probe, Probe(), serial_key="one")

        with self.assertRaisesRegex(RuntimeError, "serial key"):
            run_handler(probe, Probe(), serial_key="one")

    def test_a_function_and_a_model_do_as_well(self) -> None:
        found = run_handler(probe, Probe(behavior="result", label="x"))

        assert found.outcome == Done(result={"label": "x"})
        assert Effect.objects.get().attempt == 1

    def test_an_exception_is_an_answer_with_its_traceback(self) -> None:
        outcome = run_handler(probe, Probe(behavior="raise")).outcome

        assert isinstance(outcome, Retry)
        assert "told to raise" in outcome.reason
        assert "ValueError" in (outcome.traceback or "")
        assert isinstance(run_handler(probe, Probe(behavior="rejected")).outcome, Fail)

    def test_what_cannot_be_enqueued_is_refused(self) -> None:
        with self.assertRaises(InvalidPayload):
            run_handler("probe", {"behavior": "unheard of"})
        with self.assertRaises(UnknownKind):
            run_handler("nobody_knows")
        with self.assertRaises(UnknownKind):
            run_handler(lambda ctx, payload: None)
        with self.assertRaisesRegex(TypeError, "due_at"):
            run_handler("probe", due_at=None)

    def test_the_next_attempt_finds_what_the_first_has_left(self) -> None:
        def twice(ctx: Context, payload: Any) -> Done:
            with ctx.step("once") as step:
                if not step.done:
                    step.result = ctx.attempt
            return Done(result={"attempt": ctx.attempt, "once": step.result})

        add(self, "twice", twice)

        first = run_handler("twice")
        again = run_handler("twice", after=first)

        assert first.outcome == Done(result={"attempt": 1, "once": 1})
        assert again.outcome == Done(result={"attempt": 2, "once": 1})
        assert first.job.pk == again.job.pk

    def test_what_begins_inside_a_transaction_is_refused_as_by_a_worker(self) -> None:
        def step(ctx: Context) -> None:
            with ctx.step("inner"):
                Effect.objects.create(label="inner")

        def effect(ctx: Context) -> None:
            ctx.perform("mail", lambda action: {"sent": True})

        def nested(ctx: Context, payload: Any) -> None:
            ctx.propose("mail", {}, review=False)
            outer = (
                ctx.step("outer") if payload.outer == "step" else transaction.atomic()
            )
            with outer:
                {"step": step, "effect": effect}[payload.inner](ctx)

        add(self, "nested", nested)
        codes = {"step": "step_in_transaction", "effect": "effect_in_transaction"}

        for outer in ("step", "atomic"):
            for inner, code in codes.items():
                with self.subTest(outer=outer, inner=inner):
                    found = run_handler("nested", {"outer": outer, "inner": inner})

                    assert isinstance(found.outcome, Fail), found.outcome
                    assert found.outcome.code == code
                    assert found.actions["mail"].status == "approved"
                    assert found.steps == {}
                    enqueue({"kind": "nested", "outer": outer, "inner": inner})
                    [job] = drain()
                    assert (job.status, job.error_code) == ("failed", code)
        assert not Effect.objects.exists()

    def test_an_outcome_that_the_handler_does_not_listen_to_fails_the_job(self) -> None:
        def deaf(ctx: Context, payload: Any) -> Done:
            ctx.propose("mail", {}, review=False)
            with suppress(OutcomeUnknown):
                ctx.perform("mail", lambda action: {"at": object()})
            return Done()

        add(self, "deaf", deaf)
        enqueue({"kind": "deaf"})

        [job] = drain()

        assert (job.status, job.error_code) == ("failed", "outcome_unknown")

    def test_who_waits_for_a_decision_and_has_proposed_nothing_is_told(self) -> None:
        add(self, "waits", lambda ctx, payload: WaitForApproval())

        outcome = run_handler("waits").outcome

        assert isinstance(outcome, Fail)
        assert outcome.code == "nothing_to_wait_for"

    def test_a_question_is_an_answer(self) -> None:
        asked = WaitForInput(question="Who?", fields={"name": Field()})
        add(self, "asks", lambda ctx, payload: asked)

        assert run_handler("asks").outcome is asked

    def test_a_job_that_is_taken_away_in_the_middle_is_told(self) -> None:
        def late(ctx: Context, payload: Any) -> None:
            verbs.cancel(ctx.job.pk, actor=ANNA)
            ctx.checkpoint(state={"too": "late"})

        add(self, "late", late)

        with self.assertRaises(LostLeaseError):
            run_handler("late")

    def test_a_lease_ends_by_the_frozen_clock(self) -> None:
        def slow(ctx: Context, payload: Any) -> Done:
            held = not ctx.cancelled
            clock.advance(timedelta(days=1))
            ctx.checkpoint(state={"too": "late"})
            return Done(result={"held": held})

        add(self, "slow", slow)

        with frozen_clock() as clock, self.assertRaises(LostLeaseError):
            run_handler("slow")

    def test_other_jobs_are_left_where_they_are(self) -> None:
        urgent = enqueue(Probe(), priority=100, queue="mail")

        found = run_handler(probe, Probe(), queue="mail", requires="host:elsewhere")

        urgent.refresh_from_db()
        assert (urgent.status, found.job.status) == ("pending", "in_progress")
        assert found.job.queue == "mail"


LOOKED = ("looked", {"at": "it"})
