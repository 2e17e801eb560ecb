"""What can be done to the queue, and by whom? Kinds, outcomes, effects and decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone
from pydantic import BaseModel

from buildqueue.exceptions import NotDone
from buildqueue.models import BuildJob, JobAction
from buildqueue.queue import actions, leases, transitions, verbs
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
from buildqueue.states import ActionStatus, JobStatus, RunOutcome
from buildqueue.worker import judging
from tests.host.models import Effect

from . import dying

KIND, ONCE = "machine", "machine_once"
ANNA = Actor(label="anna", id="7")
CRASH = Cause(outcome=RunOutcome.CRASHED, code="crashed", message="it crashed")
OUTCOMES: dict[str, Outcome] = {
    "done": Done(result={"n": 1}),
    "fail": Fail(reason="told to"),
    "retry": Retry(reason="told to", delay_seconds=0),
    "retry_later": Retry(reason="told to", delay_seconds=600),
    "snooze": Snooze(delay_seconds=0),
    "cancel": Cancel(reason="pointless"),
    "input": WaitForInput(question="Who?", fields={"name": Field()}),
    "approval": WaitForApproval(),
    "children": WaitForChildren(),
    "collect": WaitForChildren(on_failure="collect"),
}
REPORTS = [*OUTCOMES, "hand_back"]
Act = Callable[[], object]
_A = ActionStatus


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


def step(ctx: Context, name: str, *, fails: bool = False) -> None:
    """Leave an effect in a step, unless an earlier attempt has."""
    with ctx.step(name) as done:
        if not done.done:
            Effect.objects.create(label=f"{ctx.job.pk}:{name}")
            done.result = {"by": ctx.attempt}
        if fails:
            raise KeyError(name)


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


def reporting(run: Run, outcome: str) -> Act:
    """Return what a run does at its end."""
    if outcome == "hand_back":
        change = judging.hand_back_change({"outcome": RunOutcome.RELEASED})
    else:
        change = judging.change_of(run.job, OUTCOMES[outcome])
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
