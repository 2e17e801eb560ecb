"""Does the engine keep its promises, whatever is done to it in whatever order?

Hypothesis draws verbs, claims, steps, effects, answers, renewals, rescues and deaths, on a
real database with real commits. After each of them all rows must agree: histories are
replayed by the tables of `states.py`, an act that is refused, or comes from a run whose
lease is gone, must have changed nothing, and one that died before its commit has not
happened. At the end of each example duties and workers must bring every job to its end.

`BUILDQUEUE_TEST_EXAMPLES=2000` looks longer, and elsewhere each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils import timezone
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from buildqueue.exceptions import (
    ActionRefused,
    InvalidTransition,
    LostLeaseError,
    OutcomeUnknown,
    PermanentError,
    Refused,
)
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import claiming, enqueueing, handlers, transitions, verbs
from buildqueue.queue.claiming import Scope
from buildqueue.queue.outcomes import Done, Fail
from buildqueue.states import ActionStatus
from buildqueue.worker import judging
from tests.support.turns import holder

from . import dying
from .acts import (
    ANNA,
    KIND,
    ONCE,
    REPORTS,
    Act,
    Payload,
    deciding,
    ended,
    people_decide,
    perform,
    reporting,
    step,
)
from .oracle import names, numbers
from .people import PeopleRules
from .reading import assert_all_agrees, clear, digest
from .runs import RunRules

EXAMPLES = int(os.environ.get("BUILDQUEUE_TEST_EXAMPLES", "0"))
PROFILE = settings(
    max_examples=EXAMPLES or 30,
    stateful_step_count=60 if EXAMPLES else 40,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
# Without these the examples would show nothing; the longer look sees everything.
MUST_HAPPEN = {
    "claim",
    "finish",
    "wait",
    "wake",
    "rescue",
    "cancel",
    "child_spawned",
    "step_finished",
    "checkpoint",
    "action_succeeded",
    "action_outcome_unknown",
    "run_ended",
}
SEEN: set[str] = set()  # kinds of events, in all examples


class Machine(RunRules, PeopleRules):
    """Everybody who has to do with the queue, and their deaths."""

    @initialize(jobs=st.integers(1, 3), most=st.integers(1, 3), remembers=st.booleans())
    def begin(self, jobs: int, most: int, remembers: bool) -> None:
        """Have something run from the first: most of it is about runs."""
        self.runs = []
        for _ in range(jobs):
            enqueueing.enqueue({"kind": KIND}, max_attempts=most)
        self.claim(most=jobs)
        if remembers:
            self.runs[0].ctx.checkpoint(state={"begun": True})

    # -- and all of it dies in the middle ------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(
        number=numbers,
        what=st.sampled_from(["report", "claim", "enqueue", "person", "decide"]),
        name=st.sampled_from(sorted(verbs.VERBS)),
        outcome=st.sampled_from(REPORTS),
        killed=st.booleans(),
        point=st.sampled_from(["update", "event", "hook", "commit", "committed"]),
    )
    def dies(
        self,
        number: int,
        what: str,
        name: str,
        outcome: str,
        killed: bool,
        point: dying.Point,
    ) -> None:
        """One transaction is done wholly or not at all."""
        run = self.run(number)
        job = self.job(number, verbs.VERBS[name][1].sources)
        action = self.action(number, ActionStatus.AWAITING_REVIEW)
        acts: dict[str, Act] = {
            "report": reporting(run, outcome),
            "claim": lambda: claiming.claim(Scope(kinds=None), holder()),
            "enqueue": lambda: enqueueing.enqueue({"kind": KIND}),
        }
        if job is not None:
            act = verbs.VERBS[name][0]
            acts["person"] = lambda: act(job.pk, actor=ANNA, reason="so")
        if action is not None:
            acts["decide"] = deciding(action, "approve", True)
        if what not in acts or (what == "claim" and claiming.anything_due()):
            return  # promoting is a transaction of its own
        before = digest()
        died = self.died(acts[what], killed, point)
        if died and point != "committed":
            assert digest() == before, "something of what died is there"
        self.adopt()

    @precondition(lambda self: self.runs)
    @rule(
        number=numbers,
        name=names,
        what=st.sampled_from(["step", "checkpoint", "spawn", "perform", "perform"]),
        killed=st.booleans(),
        point=st.sampled_from(["event", "commit", "committed", "outside", "outside"]),
    )
    def run_dies(
        self, number: int, name: str, what: str, killed: bool, point: dying.Point
    ) -> None:
        """Of what takes several transactions those that were committed are there."""
        run = self.run(number)

        acts: dict[str, Act] = {
            "step": lambda: step(run.ctx, name),
            "checkpoint": lambda: run.ctx.checkpoint(state={name: 1}),
            "spawn": lambda: run.ctx.spawn(name, {"kind": KIND}),
            "perform": lambda: run.ctx.perform(name, lambda a: perform(a, "ok")),
        }
        if what == "perform" and run.may_write():
            run.ctx.propose(name, {"key": name}, review=False)
        died = self.died(acts[what], killed, point)
        note(f"    {what} {'died' if died else 'was through'}")
        self.adopt()

    def died(self, act: Act, killed: bool, point: dying.Point) -> bool:
        def quietly() -> None:
            with redirect_stdout(StringIO()):
                act()

        try:
            return (dying.by_kill if killed else dying.by_cut)(quietly, point)
        except (
            LostLeaseError,
            InvalidTransition,
            Refused,
            PermanentError,
            ActionRefused,
            OutcomeUnknown,
        ) as error:
            note(f"    refused: {type(error).__name__}: {error}")
            return False

    # -- what is always true ---------------------------------------------------------

    @invariant()
    def everything_agrees(self) -> None:
        assert_all_agrees()

    def teardown(self) -> None:
        """Let duties and workers do their work: nothing may be left behind."""
        try:
            self.bring_to_an_end()
        finally:
            SEEN.update(JobEvent.objects.values_list("kind", flat=True))
            clear()

    def bring_to_an_end(self) -> None:
        past = timezone.now() - timedelta(minutes=1)
        BuildJob.objects.filter(lease_id__isnull=False).update(lease_until=past)
        JobRun.objects.filter(ended_at=None).update(expires_at=past)
        for _ in range(1000):
            people_decide()
            self.an_hour_passes()
            self.duties()
            for job in claiming.claim(Scope(), holder()):
                assert job.lease_id is not None
                outcome = Fail(reason="told to") if job.seq % 2 else Done()
                change = judging.change_of(job, outcome)
                transitions.apply(job.pk, change, fence=job.lease_id)
            left = BuildJob.objects.open().values_list("status", flat=True)
            if not left:
                break
        assert_all_agrees()
        assert list(left) == [], "nobody brings them to an end"


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kinds of the machine, with a hook that leaves an effect."""
    for kind in (KIND, ONCE):
        made = handlers.Handler(
            kind=kind,
            function=lambda ctx, payload: None,
            payload=Payload,
            on_final=ended,
            again_after_death=kind == KIND,
        )
        monkeypatch.setitem(handlers._handlers, kind, made)


@pytest.fixture
def unsynced(committed: None) -> Iterator[None]:
    """Have no commit wait for the disk: it is not the server that dies here."""

    def tell(connection: BaseDatabaseWrapper, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit TO off")

    connection_created.connect(tell)
    connection.close()
    yield
    connection_created.disconnect(tell)


@pytest.mark.slow
def test_whatever_is_done_in_whatever_order_everything_agrees(
    unsynced: None, kinds: None
) -> None:
    SEEN.clear()
    run_state_machine_as_test(Machine, settings=PROFILE)

    print("seen:", *sorted(SEEN))
    assert SEEN >= MUST_HAPPEN, f"never happened: {sorted(MUST_HAPPEN - SEEN)}"
