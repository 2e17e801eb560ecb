"""Which transition does an outcome stand for?

The one `match` from a handler's answer to the change of its job. Pure but for the kind's
backoff; nothing is written here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, assert_never

from django.db.models import F
from django.db.models.functions import Now

from .. import states
from ..models import BuildJob
from ..queue import failures, handlers, questions
from ..queue.outcomes import (
    WORKER,
    Cancel,
    Done,
    Fail,
    Outcome,
    Retry,
    Snooze,
    Wait,
    WaitForApproval,
    WaitForChildren,
    WaitForInput,
)
from ..queue.transitions import Change
from ..states import JobStatus, RunOutcome


def change_of(job: BuildJob, outcome: Outcome) -> Change:
    """Return the one transition that an outcome stands for."""
    match outcome:
        case Done():
            values: dict[str, Any] = {"result": outcome.result}
            ended: dict[str, Any] = {"outcome": RunOutcome.SUCCEEDED}
            return _change(states.FINISH, JobStatus.DONE, values, ended)
        case Retry():
            return _failed(job, outcome)
        case Fail():
            values = {"failures": F("failures") + 1} | _error(outcome)
            return _change(states.FAIL, JobStatus.FAILED, values, _failed_run(outcome))
        case Snooze():
            values = {"due_at": Now() + timedelta(seconds=outcome.delay_seconds)}
            why = outcome.reason or None
            ended = {"outcome": RunOutcome.WAITING, "error_msg": why}
            return _change(states.SNOOZE, JobStatus.SCHEDULED, values, ended)
        case Cancel():
            values = {"error_code": "withdrawn", "error_msg": outcome.reason}
            ended = {"outcome": RunOutcome.SUCCEEDED, "error_msg": outcome.reason}
            return _change(states.WITHDRAW, JobStatus.CANCELLED, values, ended)
        case WaitForInput() | WaitForApproval() | WaitForChildren():
            return _wait(job, outcome)
        case _:
            assert_never(outcome)


def hand_back_change(run_ends: dict[str, Any]) -> Change:
    """Return the change for a job that goes back because the worker stops."""
    return Change(
        transition=states.HAND_BACK,
        target=JobStatus.PENDING,
        actor=WORKER,
        reason="the worker stopped",
        run=run_ends,
    )


def _wait(job: BuildJob, outcome: Wait) -> Change:
    """Wait for a person or for children: the slot is free meanwhile."""
    match outcome:
        case WaitForInput():
            target = JobStatus.WAITING_INPUT
            waits_for = questions.stored(
                outcome.question, outcome.fields, attempt=job.attempt
            )
            why = outcome.question
        case WaitForApproval():
            target, waits_for = JobStatus.WAITING_APPROVAL, {"for": "approval"}
            why = outcome.reason
        case WaitForChildren():
            target = JobStatus.WAITING_CHILDREN
            waits_for = {"for": "children", "on_failure": outcome.on_failure}
            why = ""
        case _:
            assert_never(outcome)
    made = _change(states.WAIT, target, {}, {"outcome": RunOutcome.WAITING})
    return replace(made, reason=why, waits_for=waits_for)


def _failed(job: BuildJob, outcome: Retry) -> Change:
    """Tried again later, or not at all once the allowance is spent."""
    count = job.failures + 1
    counted: dict[str, Any] = {"failures": F("failures") + 1}
    if count + job.crashes >= job.max_attempts:
        values = counted | failures.exhausted(outcome.reason)
        return _change(states.FAIL, JobStatus.FAILED, values, _failed_run(outcome))
    delay = outcome.delay_seconds
    if delay is None:
        delay = handlers.backoff_of(job.kind).delay(count)
    later = {"due_at": Now() + timedelta(seconds=delay)}
    values = counted | later | _error(outcome)
    ended = _failed_run(outcome)
    made = _change(states.RETRY_LATER, JobStatus.SCHEDULED, values, ended)
    return replace(made, detail=made.detail | {"delay_seconds": round(delay, 3)})


def _error(outcome: Retry | Fail) -> dict[str, Any]:
    return {"error_code": outcome.code, "error_msg": outcome.reason}


def _failed_run(outcome: Retry | Fail) -> dict[str, Any]:
    return {
        "outcome": RunOutcome.FAILED,
        "traceback": outcome.traceback,
        "error_class": outcome.blame,
        **_error(outcome),
    }


def _change(
    transition: states.Transition,
    target: JobStatus,
    values: dict[str, Any],
    run_ends: dict[str, Any],
) -> Change:
    told = {k: v for k, v in run_ends.items() if k in {"error_code", "error_msg"} and v}
    return Change(
        transition=transition,
        target=target,
        actor=WORKER,
        reason=str(told.get("error_msg", "")),
        values=values,
        run=run_ends,
        detail=told,
    )
