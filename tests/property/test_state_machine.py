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
import uuid
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils import timezone
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import BaseModel

from buildqueue import states
from buildqueue.exceptions import (
    ActionRefused,
    DuplicateJob,
    InvalidTransition,
    LostLeaseError,
    NotDone,
    OutcomeUnknown,
    PermanentError,
    Refused,
)
from buildqueue.models import BuildJob, JobAction, JobRun
from buildqueue.queue import (
    actions,
    claiming,
    enqueueing,
    handlers,
    leases,
    recovery,
    transitions,
    verbs,
)
from buildqueue.queue.claiming import Scope
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Actor,
    Cancel,
    Cause,
    Done,
    Fail,
    Outcome,
    Retry,
    Snooze,
    WaitForApproval,
    WaitForChildren,
    WaitForInput,
)
from buildqueue.queue.questions import Field
from buildqueue.queue.transitions import Holder
from buildqueue.states import FINAL, ActionStatus, JobStatus, RunOutcome
from buildqueue.worker import runner
from tests.host.models import Effect

from . import dying
from .reading import KEPT, assert_all_agrees, assert_repaired, clear, digest, look

EXAMPLES = int(os.environ.get("BUILDQUEUE_TEST_EXAMPLES", "0"))
PROFILE = settings(
    max_examples=EXAMPLES or 40,
    stateful_step_count=60 if EXAMPLES else 40,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
KIND, ONCE = "machine", "machine_once"
ANNA = Actor(label="anna", id="7")
CRASH = Cause(outcome=RunOutcome.CRASHED, code="crashed", message="it crashed")
ASKED = WaitForInput(question="Who?", fields={"name": Field()})
OUTCOMES: dict[str, Outcome] = {
    "done": Done(result={"n": 1}),
    "fail": Fail(reason="told to"),
    "retry": Retry(reason="told to", delay_seconds=0),
    "retry_later": Retry(reason="told to", delay_seconds=600),
    "snooze": Snooze(delay_seconds=0),
    "cancel": Cancel(reason="pointless"),
    "input": ASKED,
    "approval": WaitForApproval(),
    "children": WaitForChildren(),
    "collect": WaitForChildren(on_failure="collect"),
}
REFUSALS = {
    "outcome_unknown",
    "duplicate_job",
    "child_depth",
    "answer_does_not_fit",
    "content_changed",
    "action_expired",
    "already_decided",
}
Act = Callable[[], object]
numbers = st.integers(min_value=0, max_value=1_000)
names = st.sampled_from(["a", "b"])


class Payload(BaseModel, extra="allow"):
    """A payload that may be anything."""

    kind: str


@dataclass(frozen=True, slots=True)
class Run:
    """A claimed job, as the process has it that claimed it, dead or alive."""

    ctx: Context

    @property
    def job(self) -> BuildJob:
        return self.ctx.job

    @property
    def lease(self) -> UUID:
        return self.ctx.lease_id

    def holds(self) -> bool:
        """Whether the job is its own, be the lease over or not."""
        return BuildJob.objects.filter(pk=self.job.pk, lease_id=self.lease).exists()

    def may_write(self) -> bool:
        """Whether its lease is in force."""
        return bool(leases.held([self.lease]))


def ended(job: BuildJob) -> None:
    """Leave an effect in the transaction of the end, whatever ends the job."""
    Effect.objects.create(label=f"end:{job.pk}", attempt=job.attempt)
    for strike in dying.in_hook:
        strike()


def perform(action: JobAction, how: str) -> dict[str, Any]:
    """Bring an effect about outside, or not, or die in the middle of it."""
    for strike in dying.in_effect:
        strike()
    if how == "not_done":
        raise NotDone("told not to")
    if how == "raises":
        raise RuntimeError("nobody knows")
    return {"done": action.key}


class Machine(RuleBasedStateMachine):
    """Everybody who has to do with the queue."""

    runs: list[Run]

    @initialize()
    def begin(self) -> None:
        self.runs = []

    # -- what is asked of the oracle -------------------------------------------------

    def job(self, number: int) -> BuildJob | None:
        jobs = list(BuildJob.objects.order_by("seq"))
        return jobs[number % len(jobs)] if jobs else None

    def run(self, number: int) -> Run:
        # Backwards: a small number, to which examples shrink, is the newest run.
        return self.runs[-1 - number % len(self.runs)]

    def action(self, number: int) -> JobAction | None:
        found = list(JobAction.objects.order_by("created_at"))
        return found[number % len(found)] if found else None

    def refused(self, act: Act, *errors: type[Exception]) -> Exception | None:
        """Do it; return what refused it, which then must have changed nothing."""
        before = digest()
        refusal: Exception | None = None
        try:
            with redirect_stdout(StringIO()):
                act()
        except errors as error:
            note(f"    refused: {type(error).__name__}: {error}")
            refusal = error
        code = getattr(refusal, "code", "")
        if refusal is not None and code != "action_expired":
            assert digest() == before, f"refused by {refusal!r}, and written"
        if isinstance(refusal, Refused):
            assert code in REFUSALS, code
        return refusal

    def verb(self, job: BuildJob, transition: states.Transition, act: Act) -> None:
        """Do what a person does: allowed exactly when the table says so."""
        refusal = self.refused(act, InvalidTransition, Refused)
        if transition.allowed_from(job.status):
            assert not isinstance(refusal, InvalidTransition), refusal
        else:
            assert isinstance(refusal, InvalidTransition), "it is not allowed"
            assert refusal.found == job.status

    def writes(self, run: Run, act: Act, *errors: type[Exception]) -> None:
        """Have a run write: it can exactly while its lease is in force."""
        held, may = run.holds(), run.may_write()
        before, kept = digest(), digest(KEPT)
        try:
            with redirect_stdout(StringIO()):
                act()
        except LostLeaseError:
            assert not may, "a lease that is in force was called lost"
        except errors as error:
            note(f"    refused: {type(error).__name__}: {error}")
        if not held:
            assert digest() == before, "a run without its lease has written"
        elif not may:
            assert digest(KEPT) == kept, "a run whose lease is over has written"

    def adopt(self) -> None:
        """Have a process for each running job, also for one that was claimed and died."""
        known = {run.lease for run in self.runs}
        running = BuildJob.objects.filter(status=JobStatus.IN_PROGRESS)
        for job in running.exclude(lease_id__in=known).order_by("seq"):
            assert job.lease_id is not None
            self.runs.append(Run(Context(job=job, lease_id=job.lease_id)))

    # -- putting in and taking -------------------------------------------------------

    @rule(
        kind=st.sampled_from([KIND, KIND, KIND, ONCE]),
        dedupe_key=st.sampled_from([None, None, "x"]),
        serial_key=st.sampled_from([None, None, "s"]),
        on_duplicate=st.sampled_from(["reject", "return", "replace"]),
        later=st.sampled_from([False, False, True]),
        most=st.integers(1, 3),
    )
    def enqueue(
        self,
        kind: str,
        dedupe_key: str | None,
        serial_key: str | None,
        on_duplicate: Any,
        later: bool,
        most: int,
    ) -> None:
        held = BuildJob.objects.open().filter(dedupe_key=dedupe_key).first()
        duplicate = dedupe_key is not None and held is not None
        self.refused(
            lambda: enqueueing.enqueue(
                {"kind": kind},
                dedupe_key=dedupe_key,
                serial_key=serial_key,
                on_duplicate=on_duplicate,
                due_at=timezone.now() + timedelta(hours=1) if later else None,
                max_attempts=most,
            ),
            *([DuplicateJob] if duplicate else []),
        )
        note(f"    {BuildJob.objects.count()} jobs")

    @rule(most=st.integers(1, 3))
    def claim(self, most: int) -> None:
        free = BuildJob.objects.filter(status=JobStatus.PENDING, serial_key=None)
        open_ones = JobRun.objects.filter(ended_at=None).values("job_id")
        expected = free.exclude(pk__in=open_ones).count()
        taken = claiming.claim(Scope(), holder(), limit=most)
        assert len(taken) >= min(expected, most), "a job that is due was not taken"
        self.adopt()

    # -- what runs do, dead or alive -------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(number=numbers, name=names, fails=st.booleans())
    def step(self, number: int, name: str, fails: bool) -> None:
        run = self.run(number)

        def act() -> None:
            with run.ctx.step(name) as step:
                if step.done:
                    return
                Effect.objects.create(label=f"{run.job.pk}:{name}")
                step.result = {"by": run.ctx.attempt}
                if fails:
                    raise KeyError(name)

        self.writes(run, act, KeyError)

    @precondition(lambda self: self.runs)
    @rule(number=numbers, name=names, how=st.sampled_from(["checkpoint", "progress"]))
    def remember(self, number: int, name: str, how: str) -> None:
        run = self.run(number)
        if how == "progress":
            self.writes(run, lambda: run.ctx.progress(1, 2, name))
        else:
            self.writes(run, lambda: run.ctx.checkpoint(state={name: run.ctx.attempt}))

    @precondition(lambda self: self.runs)
    @rule(number=numbers, key=names, review=st.booleans())
    def propose(self, number: int, key: str, review: bool) -> None:
        run = self.run(number)
        self.writes(run, lambda: run.ctx.propose(key, {"key": key}, review=review))

    @precondition(lambda self: self.runs)
    @rule(number=numbers, key=names, how=st.sampled_from(["ok", "not_done", "raises"]))
    def perform(self, number: int, key: str, how: str) -> None:
        run = self.run(number)
        self.writes(
            run,
            lambda: run.ctx.perform(key, lambda action: perform(action, how)),
            NotDone,
            OutcomeUnknown,
            ActionRefused,
            PermanentError,
        )

    @precondition(lambda self: self.runs)
    @rule(number=numbers, key=names)
    def spawn(self, number: int, key: str) -> None:
        run = self.run(number)
        self.writes(run, lambda: run.ctx.spawn(key, {"kind": KIND}), Refused)

    @precondition(lambda self: self.runs)
    @rule(number=numbers, outcome=st.sampled_from(sorted(OUTCOMES)))
    def report(self, number: int, outcome: str) -> None:
        run = self.run(number)
        held = run.holds()
        refusal = self.refused(reporting(run, outcome), LostLeaseError)
        assert (refusal is None) == held, "exactly the holder reports"

    @precondition(lambda self: self.runs)
    @rule(number=numbers)
    def hand_back(self, number: int) -> None:
        run = self.run(number)
        held = run.holds()
        change = runner.hand_back_change({"outcome": RunOutcome.RELEASED})
        refusal = self.refused(
            lambda: transitions.apply(run.job.pk, change, fence=run.lease),
            LostLeaseError,
        )
        assert (refusal is None) == held, "exactly the holder hands back"

    # -- what workers, duties and time do ----------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(number=numbers)
    def renew(self, number: int) -> None:
        run = self.run(number)
        assert run.job.slot is not None
        may = run.may_write()
        renewed = leases.renew([run.job.slot], timedelta(minutes=1))
        assert (run.lease in renewed) == may

    @precondition(lambda self: self.runs)
    @rule(number=numbers)
    def lease_ends(self, number: int) -> None:
        past = timezone.now() - timedelta(minutes=1)
        running = BuildJob.objects.filter(lease_id=self.run(number).lease)
        running.update(lease_until=past)

    @precondition(lambda self: self.runs)
    @rule(number=numbers)
    def slot_dies(self, number: int) -> None:
        run = self.run(number)
        assert run.job.slot is not None
        recovery.rescue_slot(run.job.slot, CRASH, started=run.lease)
        assert not run.holds()
        open_ones = JobRun.objects.filter(pk=run.lease, ended_at=None)
        assert not open_ones.exists()

    @precondition(lambda self: self.runs)
    @rule(number=numbers)
    def process_ends(self, number: int) -> None:
        run = self.run(number)
        recovery.end_own_run(run.lease)
        open_one = JobRun.objects.filter(pk=run.lease, ended_at=None).exists()
        assert open_one == run.holds()

    @rule()
    def duties(self) -> None:
        recovery.rescue_expired()
        over = BuildJob.objects.filter(lease_until__lt=timezone.now())
        assert not over.exists()
        while recovery.repair_pairs():
            pass
        assert_repaired()
        before = digest()
        assert recovery.repair_pairs() == recovery.rescue_expired() == 0
        assert digest() == before, "a second time it changes something"

    @rule()
    def an_hour_passes(self) -> None:
        later = BuildJob.objects.filter(status=JobStatus.SCHEDULED)
        later.update(due_at=timezone.now())

    @precondition(lambda self: JobAction.objects.exists())
    @rule(number=numbers)
    def action_is_too_old(self, number: int) -> None:
        action = self.action(number)
        assert action is not None
        past = timezone.now() - timedelta(minutes=1)
        JobAction.objects.filter(pk=action.pk).update(expires_at=past, lease_id=None)

    # -- what people do ----------------------------------------------------------------

    @rule(number=numbers, name=st.sampled_from(sorted(verbs.VERBS)))
    def person(self, number: int, name: str) -> None:
        if job := self.job(number):
            act, transition, _ = verbs.VERBS[name]
            note(f"    {name} a job that is {job.status}")
            self.verb(job, transition, lambda: act(job.pk, actor=ANNA, reason="so"))

    @rule(number=numbers, later=st.booleans())
    def change_due(self, number: int, later: bool) -> None:
        if job := self.job(number):
            due = timezone.now() + timedelta(hours=1 if later else -1)
            self.verb(
                job,
                states.RESCHEDULE,
                lambda: verbs.change_due(job.pk, due_at=due, actor=ANNA),
            )

    @rule(number=numbers, priority=st.integers(-100, 100))
    def change_priority(self, number: int, priority: int) -> None:
        if job := self.job(number):
            refusal = self.refused(
                lambda: verbs.change_priority(job.pk, priority=priority, actor=ANNA),
                InvalidTransition,
            )
            assert (refusal is None) == (job.status not in FINAL)

    @rule(number=numbers, values=st.sampled_from([{"name": "x"}, {}, {"no": "field"}]))
    def answer(self, number: int, values: dict[str, Any]) -> None:
        if job := self.job(number):
            refusal = self.refused(
                lambda: verbs.answer(job.pk, values=values, actor=ANNA),
                InvalidTransition,
                Refused,
            )
            asked = job.status == JobStatus.WAITING_INPUT
            assert isinstance(refusal, InvalidTransition) != asked
            if asked:
                assert (refusal is None) == ("name" in values)

    @precondition(lambda self: JobAction.objects.exists())
    @rule(
        number=numbers,
        verb=st.sampled_from(["approve", "approve", "deny", "settle"]),
        seen=st.sampled_from([True, True, False]),
    )
    def decide(self, number: int, verb: str, seen: bool) -> None:
        action = self.action(number)
        assert action is not None
        refusal = self.refused(deciding(action, verb, seen), Refused)
        unknown = action.status == ActionStatus.OUTCOME_UNKNOWN
        awaited = action.status == ActionStatus.AWAITING_REVIEW
        if not (unknown if verb == "settle" else awaited):
            assert getattr(refusal, "code", "") == "already_decided"

    # -- and all of it dies in the middle ------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(
        number=numbers,
        what=st.sampled_from(["report", "claim", "enqueue", "person", "decide"]),
        name=st.sampled_from(sorted(verbs.VERBS)),
        outcome=st.sampled_from(sorted(OUTCOMES)),
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
        run, job, action = self.run(number), self.job(number), self.action(number)
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
        what=st.sampled_from(["step", "checkpoint", "spawn", "perform"]),
        killed=st.booleans(),
        point=st.sampled_from(["update", "event", "commit", "committed", "outside"]),
    )
    def run_dies(
        self, number: int, name: str, what: str, killed: bool, point: dying.Point
    ) -> None:
        """Of what takes several transactions those that were committed are there."""
        run = self.run(number)

        def step() -> None:
            with run.ctx.step(name) as step:
                if not step.done:
                    Effect.objects.create(label=f"{run.job.pk}:{name}")

        acts: dict[str, Act] = {
            "step": step,
            "checkpoint": lambda: run.ctx.checkpoint(state={name: 1}),
            "spawn": lambda: run.ctx.spawn(name, {"kind": KIND}),
            "perform": lambda: run.ctx.perform(name, lambda a: perform(a, "ok")),
        }
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
            clear()

    def bring_to_an_end(self) -> None:
        past = timezone.now() - timedelta(minutes=1)
        BuildJob.objects.filter(lease_id__isnull=False).update(lease_until=past)
        JobRun.objects.filter(ended_at=None).update(expires_at=past)
        recovery.rescue_expired()
        for _ in range(200):
            self.an_hour_passes()
            self.duties()
            taken = claiming.claim(Scope(), holder(), limit=5)
            if not taken:
                break
            for job in taken:
                change = runner.change_of(job, Done())
                transitions.apply(job.pk, change, fence=job.lease_id)
        assert_all_agrees()
        for job in look().jobs.values():
            assert job.status in FINAL | {
                JobStatus.PAUSED,
                JobStatus.WAITING_INPUT,
                JobStatus.WAITING_APPROVAL,
                JobStatus.WAITING_CHILDREN,
            }, f"nobody takes a job that is {job.status}"


def holder() -> Holder:
    """Return a slot of a worker that nobody else is."""
    return Holder(
        worker=uuid.uuid4(), slot=uuid.uuid4(), pid=1, lease=timedelta(minutes=1)
    )


def reporting(run: Run, outcome: str) -> Act:
    """Return what a run does at its end."""
    change = runner.change_of(run.job, OUTCOMES[outcome])
    return lambda: transitions.apply(run.job.pk, change, fence=run.lease)


def deciding(action: JobAction, verb: str, seen: bool) -> Act:
    """Return what a person does who has, or has not, seen the content."""
    if verb == "settle":
        return lambda: actions.settle(
            action.pk, happened=seen, actor=ANNA, reason="looked"
        )
    decide = {"approve": actions.approve, "deny": actions.deny}[verb]
    content_hash = action.content_hash if seen else "0" * 64
    return lambda: decide(action.pk, content_hash=content_hash, actor=ANNA, reason="so")


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
    run_state_machine_as_test(Machine, settings=PROFILE)
