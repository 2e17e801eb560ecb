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
from typing import Any, TypeVar
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
from buildqueue.models import BuildJob, JobAction, JobEvent, JobRun
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
from .reading import KEPT, REVIEWS, assert_all_agrees, assert_repaired, clear, digest

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
REPORTS = [*OUTCOMES, "hand_back"]
WAITS = ["children", "collect"]
WRITES = ["step", "step", "step_fails", "checkpoint", "progress", "spawn"]
EFFECTS = ["propose", "propose_sure", "ok", "not_done", "raises"]
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
Row = TypeVar("Row")
_A = ActionStatus
SEEN: set[str] = set()  # kinds of events, in all examples
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


def chosen(rows: list[Row], number: int) -> Row | None:
    """Return one of the rows, if there is one."""
    return rows[number % len(rows)] if rows else None


def step(ctx: Context, name: str, *, fails: bool = False) -> None:
    """Leave an effect in a step, unless an earlier attempt has."""
    with ctx.step(name) as done:
        if not done.done:
            Effect.objects.create(label=f"{ctx.job.pk}:{name}")
            done.result = {"by": ctx.attempt}
        if fails:
            raise KeyError(name)


class Machine(RuleBasedStateMachine):
    """Everybody who has to do with the queue."""

    runs: list[Run]

    @initialize(jobs=st.integers(1, 3), most=st.integers(1, 3))
    def begin(self, jobs: int, most: int) -> None:
        """Have something run from the first: most of it is about runs."""
        self.runs = []
        for _ in range(jobs):
            enqueueing.enqueue({"kind": KIND}, max_attempts=most)
        self.claim(most=jobs)

    # -- what is asked of the oracle -------------------------------------------------

    def job(self, number: int, wanted: frozenset[JobStatus]) -> BuildJob | None:
        """Return a job, more often than not one in a status that is wanted."""
        jobs = list(BuildJob.objects.order_by("seq"))
        fitting = [job for job in jobs if job.status in wanted]
        return chosen(fitting if number % 4 and fitting else jobs, number)

    def run(self, number: int) -> Run:
        # Backwards: a small number, to which examples shrink, is the newest run.
        return self.runs[-1 - number % len(self.runs)]

    def action(self, number: int, wanted: ActionStatus) -> JobAction | None:
        found = list(JobAction.objects.order_by("created_at"))
        fitting = [action for action in found if action.status == wanted]
        return chosen(fitting if number % 4 and fitting else found, number)

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
    def take(self, most: int) -> None:
        self.claim(most)

    def claim(self, most: int) -> None:
        free = BuildJob.objects.filter(status=JobStatus.PENDING, serial_key=None)
        open_ones = JobRun.objects.filter(ended_at=None).values("job_id")
        expected = free.exclude(pk__in=open_ones).count()
        taken = claiming.claim(Scope(), holder(), limit=most)
        assert len(taken) >= min(expected, most), "a job that is due was not taken"
        self.adopt()

    # -- what runs do, dead or alive -------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(number=numbers, name=names, what=st.sampled_from(WRITES))
    def write(self, number: int, name: str, what: str) -> None:
        ctx = self.run(number).ctx
        acts: dict[str, Act] = {
            "step": lambda: step(ctx, name),
            "step_fails": lambda: step(ctx, name, fails=True),
            "checkpoint": lambda: ctx.checkpoint(state={name: ctx.attempt}),
            "progress": lambda: ctx.progress(1, 2, name),
            "spawn": lambda: ctx.spawn(name, {"kind": KIND}),
        }
        self.writes(self.run(number), acts[what], KeyError, Refused)

    @precondition(lambda self: self.runs)
    @rule(number=numbers, name=names, outcome=st.sampled_from(WAITS))
    def delegate(self, number: int, name: str, outcome: str) -> None:
        """What most runs do that have children: enqueue them, and wait."""
        run = self.run(number)
        self.writes(run, lambda: run.ctx.spawn(name, {"kind": KIND}), Refused)
        self.report_as(run, outcome)

    @precondition(lambda self: self.runs)
    @rule(number=numbers, key=names, what=st.sampled_from(EFFECTS))
    def effect(self, number: int, key: str, what: str) -> None:
        ctx = self.run(number).ctx

        def act() -> None:
            if what.startswith("propose"):
                ctx.propose(key, {"key": key}, review=what == "propose")
                return
            ctx.propose(key, {"key": key}, review=False)
            ctx.perform(key, lambda action: perform(action, what))

        self.writes(
            self.run(number),
            act,
            NotDone,
            OutcomeUnknown,
            ActionRefused,
            PermanentError,
        )

    @precondition(lambda self: self.runs)
    @rule(number=numbers, outcome=st.sampled_from(REPORTS))
    def report(self, number: int, outcome: str) -> None:
        self.report_as(self.run(number), outcome)

    def report_as(self, run: Run, outcome: str) -> None:
        held = run.holds()
        refusal = self.refused(reporting(run, outcome), LostLeaseError)
        assert (refusal is None) == held, "exactly the holder reports"

    # -- what workers, duties and time do ----------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(
        number=numbers,
        what=st.sampled_from(["renewed", "lease_ends", "slot_dies", "process_ends"]),
    )
    def run_is(self, number: int, what: str) -> None:
        run = self.run(number)
        getattr(self, what)(run, run.job.slot)

    def renewed(self, run: Run, slot: UUID) -> None:
        may = run.may_write()
        assert (run.lease in leases.renew([slot], timedelta(minutes=1))) == may

    def lease_ends(self, run: Run, slot: UUID) -> None:
        past = timezone.now() - timedelta(minutes=1)
        BuildJob.objects.filter(lease_id=run.lease).update(lease_until=past)

    def slot_dies(self, run: Run, slot: UUID) -> None:
        recovery.rescue_slot(slot, CRASH, started=run.lease)
        assert not run.holds()
        assert not JobRun.objects.filter(pk=run.lease, ended_at=None).exists()

    def process_ends(self, run: Run, slot: UUID) -> None:
        recovery.end_own_run(run.lease)
        open_one = JobRun.objects.filter(pk=run.lease, ended_at=None).exists()
        assert open_one == run.holds()

    @rule(hour=st.booleans())
    def time_passes(self, hour: bool) -> None:
        if hour:
            self.an_hour_passes()
        self.duties()

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

    def an_hour_passes(self) -> None:
        later = BuildJob.objects.filter(status=JobStatus.SCHEDULED)
        later.update(due_at=timezone.now())

    @precondition(lambda self: JobAction.objects.exists())
    @rule(number=numbers)
    def action_is_too_old(self, number: int) -> None:
        action = self.action(number, _A.AWAITING_REVIEW)
        assert action is not None
        past = timezone.now() - timedelta(minutes=1)
        undecided = JobAction.objects.filter(status__in=REVIEWS)
        undecided.filter(pk=action.pk).update(expires_at=past, lease_id=None)

    # -- what people do ----------------------------------------------------------------

    @rule(number=numbers, name=st.sampled_from(sorted(verbs.VERBS)))
    def person(self, number: int, name: str) -> None:
        self.applies(number, name)

    @rule(number=numbers, name=st.sampled_from(["pause", "resume", "retry"]))
    def patient_person(self, number: int, name: str) -> None:
        self.applies(number, name)

    def applies(self, number: int, name: str) -> None:
        act, transition, _ = verbs.VERBS[name]
        if job := self.job(number, transition.sources):
            note(f"    {name} a job that is {job.status}")
            self.verb(job, transition, lambda: act(job.pk, actor=ANNA, reason="so"))

    @rule(number=numbers, priority=st.integers(-100, 100), later=st.booleans())
    def reorder(self, number: int, priority: int, later: bool) -> None:
        if (job := self.job(number, states.UNCLAIMED)) is None:
            return
        refusal = self.refused(
            lambda: verbs.change_priority(job.pk, priority=priority, actor=ANNA),
            InvalidTransition,
        )
        assert (refusal is None) == (job.status not in FINAL)
        due = timezone.now() + timedelta(hours=1 if later else -1)
        self.verb(
            job,
            states.RESCHEDULE,
            lambda: verbs.change_due(job.pk, due_at=due, actor=ANNA),
        )

    @rule(number=numbers, values=st.sampled_from([{"name": "x"}, {}, {"no": "field"}]))
    def answer(self, number: int, values: dict[str, Any]) -> None:
        if job := self.job(number, frozenset({JobStatus.WAITING_INPUT})):
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
        settled = verb == "settle"
        wanted = _A.OUTCOME_UNKNOWN if settled else _A.AWAITING_REVIEW
        action = self.action(number, wanted)
        assert action is not None
        refusal = self.refused(deciding(action, verb, seen), Refused)
        if action.status != wanted:
            assert getattr(refusal, "code", "") == "already_decided"

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
        action = self.action(number, _A.AWAITING_REVIEW)
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
                change = runner.change_of(job, outcome)
                transitions.apply(job.pk, change, fence=job.lease_id)
            left = BuildJob.objects.open().values_list("status", flat=True)
            if not left:
                break
        assert_all_agrees()
        assert list(left) == [], "nobody brings them to an end"


def people_decide() -> None:
    """Decide whatever is to be decided by a person."""
    for job in BuildJob.objects.filter(status=JobStatus.PAUSED):
        unknown = job.actions.filter(status=_A.OUTCOME_UNKNOWN)
        for action in unknown:
            deciding(action, "settle", True)()
        verbs.resume(job.pk, actor=ANNA)
    for job in BuildJob.objects.filter(status=JobStatus.WAITING_INPUT):
        verbs.answer(job.pk, values={"name": "x"}, actor=ANNA)
    awaited = JobAction.objects.filter(status=_A.AWAITING_REVIEW)
    for action in awaited.filter(expires_at__gt=timezone.now()):
        deciding(action, "approve", True)()


def holder() -> Holder:
    """Return a slot of a worker that nobody else is."""
    return Holder(
        worker=uuid.uuid4(), slot=uuid.uuid4(), pid=1, lease=timedelta(minutes=1)
    )


def reporting(run: Run, outcome: str) -> Act:
    """Return what a run does at its end."""
    if outcome == "hand_back":
        change = runner.hand_back_change({"outcome": RunOutcome.RELEASED})
    else:
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
    SEEN.clear()
    run_state_machine_as_test(Machine, settings=PROFILE)

    print("seen:", *sorted(SEEN))
    assert SEEN >= MUST_HAPPEN, f"never happened: {sorted(MUST_HAPPEN - SEEN)}"
