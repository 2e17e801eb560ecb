"""What do hosts, workers, runs, duties and time do to the queue?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from buildqueue.exceptions import (
    ActionRefused,
    DuplicateJob,
    LostLeaseError,
    NotDone,
    OutcomeUnknown,
    PermanentError,
    Refused,
)
from buildqueue.models import BuildJob, JobAction, JobRun
from buildqueue.queue import claiming, enqueueing, leases, recovery
from buildqueue.queue.claiming import Scope
from buildqueue.states import ActionStatus, JobStatus
from tests.support.turns import holder

from .acts import CRASH, KIND, ONCE, REPORTS, Act, Run, perform, reporting, step
from .oracle import Oracle, names, numbers
from .reading import REVIEWS, assert_repaired, digest

WRITES = ["checkpoint", "step", "step", "step_fails", "progress", "spawn"]
EFFECTS = ["propose", "propose_sure", "ok", "not_done", "raises"]
WAITS = ["children", "collect"]


class RunRules(Oracle):
    """All that happens without people; runs act, dead or alive."""

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
        assert (run.lease in leases.renew([run.lease], timedelta(minutes=1))) == may

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
        action = self.action(number, ActionStatus.AWAITING_REVIEW)
        assert action is not None
        past = timezone.now() - timedelta(minutes=1)
        undecided = JobAction.objects.filter(status__in=REVIEWS)
        undecided.filter(pk=action.pk).update(expires_at=past, lease_id=None)
