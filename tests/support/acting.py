"""How does a test do something outside, leave it half done, and decide on it?

The outside world is a `Provider` that counts how often it was asked; `LEAVE` are the ways
in which a run is ended while it is asked.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from buildqueue.exceptions import Refused
from buildqueue.models import BuildJob, JobAction
from buildqueue.queue import actions, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor, Cause, WaitForApproval
from buildqueue.states import ActionStatus, JobStatus
from buildqueue.worker import duties

from .jobs import fresh
from .turns import report

ANNA = Actor(label="anna", id="7")
BERT = Actor(label="bert", id="8")
MAIL = {"to": "carl@example.com", "text": "hello"}
CRASH = Cause(outcome="crashed", code="killed_by_signal", message="killed by SIGKILL")


class Provider:
    """Counts how often the outside world was asked, and answers as told."""

    def __init__(self, *answers: object) -> None:
        self.calls = 0
        self._answers = answers

    def __call__(self, action: JobAction) -> dict[str, Any] | None:
        self.calls += 1
        answer = self._answers[min(self.calls, len(self._answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]


def fresh_action(action: JobAction) -> JobAction:
    """Return the action as it is stored now."""
    return JobAction.objects.get(pk=action.pk)


def make_mail(job: BuildJob, status: str, **values: Any) -> JobAction:
    """Make an action in any status, with what the checks want beside it."""
    values.setdefault("key", uuid.uuid4().hex)
    if status == ActionStatus.EXECUTING:
        values.setdefault("started_at", timezone.now())
        values.setdefault("lease_id", job.lease_id)
    return JobAction.objects.create(
        job=job,
        title="Mail to Carl",
        content=MAIL,
        content_hash=actions.hash_of(MAIL),
        status=status,
        attempt=job.attempt,
        **values,
    )


def begun(ctx: Context) -> JobAction:
    """Leave an action under way, as a process does that dies in the middle of it."""
    action = ctx.propose("mail", MAIL, title="Mail to Carl", review=False)
    with transaction.atomic():
        return actions.begin(action, ctx.lease_id)


def waiting(ctx: Context) -> JobAction:
    """Propose, and have the run wait for the decision."""
    action = ctx.propose("mail", MAIL, title="Mail to Carl")
    report(ctx.job, WaitForApproval())
    assert fresh(ctx.job).status == JobStatus.WAITING_APPROVAL
    return action


def approve(action: JobAction, actor: Actor = ANNA, **named: Any) -> JobAction:
    """Approve what the action says now."""
    return actions.approve(
        action.pk, content_hash=action.content_hash, actor=actor, **named
    )


def deny(action: JobAction, *, reason: str, actor: Actor = ANNA) -> JobAction:
    """Deny what the action says now."""
    digest = action.content_hash
    return actions.deny(action.pk, content_hash=digest, actor=actor, reason=reason)


def make_late(action: JobAction) -> None:
    """Let the time pass in which it may be decided on or performed."""
    JobAction.objects.filter(pk=action.pk).update(
        expires_at=timezone.now() - timedelta(seconds=5), lease_id=None
    )


def code_of(act: Callable[..., object], *args: Any, **named: Any) -> str:
    """Return the code by which it is refused, which it must be."""
    with pytest.raises(Refused) as refused:
        act(*args, **named)
    return refused.value.code


def _hand_back(job: BuildJob) -> object:
    assert job.slot is not None
    return duties.hand_back(job.slot, CRASH)


def _rescue_slot(job: BuildJob) -> object:
    assert job.slot is not None
    return recovery.rescue_slot(job.slot, CRASH, started=job.lease_id)


def _rescue_unstarted(job: BuildJob) -> object:
    assert job.slot is not None
    return recovery.rescue_slot(job.slot, CRASH, started=None)


def _rescue_expired(job: BuildJob) -> object:
    past = timezone.now() - timedelta(seconds=5)
    BuildJob.objects.filter(pk=job.pk).update(lease_until=past)
    return recovery.rescue_expired()


# How a run is ended, and what its job is then when an action was under way.
LEAVE: dict[str, tuple[Callable[[BuildJob], object], str]] = {
    "rescue": (_rescue_slot, JobStatus.FAILED),
    "rescue_unstarted": (_rescue_unstarted, JobStatus.FAILED),
    "rescue_worker": (lambda j: recovery.rescue_worker(j.worker), JobStatus.FAILED),  # type: ignore[arg-type]
    "lease_over": (_rescue_expired, JobStatus.FAILED),
    "hand_back": (_hand_back, JobStatus.FAILED),
    "release": (
        lambda j: verbs.release(j.pk, actor=ANNA, reason="slow"),
        JobStatus.FAILED,
    ),
    "pause": (lambda j: verbs.pause(j.pk, actor=ANNA), JobStatus.PAUSED),
    "cancel": (lambda j: verbs.cancel(j.pk, actor=ANNA), JobStatus.CANCELLED),
    "force_fail": (
        lambda j: verbs.force_fail(j.pk, actor=ANNA, reason="enough"),
        JobStatus.FAILED,
    ),
}
