"""What do the chaos test's jobs do? What handlers of a host do, with effects to be counted.

Nothing here is careful on its own: whatever goes right is the engine's doing.
"""

from __future__ import annotations

import time
from functools import partial

from buildqueue.exceptions import TransientError
from buildqueue.queue.context import Context
from buildqueue.queue.handlers import handler
from buildqueue.queue.outcomes import (
    Outcome,
    Snooze,
    WaitForApproval,
    WaitForChildren,
    WaitForInput,
)
from buildqueue.queue.questions import Field

from . import counter
from .models import Entry
from .payloads import Approval, Effect, Family, Question, Sleeper, Steps


def _enter(ctx: Context, effect: str, seconds: float = 0.0) -> None:
    """Have an effect in the database, with time to die on either side of it."""
    time.sleep(seconds / 2)
    Entry.objects.create(
        job=ctx.job.pk, effect=effect, lease=ctx.lease_id, attempt=ctx.attempt
    )
    time.sleep(seconds / 2)


@handler("chaos_steps", payload=Steps)
def steps(ctx: Context, payload: Steps) -> None:
    """Do one step after the other."""
    for number in range(payload.steps):
        name = f"step {number}"
        with ctx.step(name) as step:
            if not step.done:
                _enter(ctx, name, payload.seconds)
                step.result = number
        ctx.checkpoint(state={"done": number})
        if number == 0 and ctx.attempt <= payload.fails_until:
            raise TransientError("told to fail")


@handler("chaos_effect", payload=Effect)
def effect(ctx: Context, payload: Effect) -> None:
    """Have the outside world count one between two effects in the database."""
    ctx.once("before", _enter, ctx, "before", payload.seconds)
    ctx.propose("count", {"answer": payload.answer}, title="Count one", review=False)
    ctx.perform("count", partial(counter.ask, payload.answer, payload.seconds))
    ctx.once("after", _enter, ctx, "after", payload.seconds)


@handler("chaos_family", payload=Family)
def family(ctx: Context, payload: Family) -> Outcome | None:
    """Have children work, wait for them, gather."""
    for number in range(payload.children):
        ctx.spawn(f"child {number}", _child(payload, number), max_attempts=12)
    if any(not child.is_final for child in ctx.children()):
        return WaitForChildren(on_failure=payload.on_failure)
    ctx.once("gathered", _enter, ctx, "gathered", payload.seconds)
    return None


def _child(payload: Family, number: int) -> Family | Effect | Steps:
    if number == 0 and payload.generations > 1:
        below = {"children": 2, "generations": payload.generations - 1}
        return payload.model_copy(update=below)
    if number == 1:
        return Effect(seconds=payload.seconds)
    return Steps(steps=2, seconds=payload.seconds)


@handler("chaos_approval", payload=Approval)
def approval(ctx: Context, payload: Approval) -> Outcome | None:
    """Have the outside world count one, once a person lets it."""
    action = ctx.propose("count", {"answer": "count"}, title="Count one, if I may")
    if action.status == "awaiting_review":
        return WaitForApproval()
    ctx.perform("count", partial(counter.ask, "count", payload.seconds))
    ctx.once("approved", _enter, ctx, "approved", payload.seconds)
    return None


@handler("chaos_question", payload=Question)
def question(ctx: Context, payload: Question) -> Outcome | None:
    """Ask, and write that there was an answer."""
    if "color" not in ctx.answers:
        color = Field(type="choice", choices=("red", "blue"))
        return WaitForInput(question="Which color?", fields={"color": color})
    ctx.once("answered", _enter, ctx, "answered")
    return None


@handler("chaos_sleeper", payload=Sleeper)
def sleeper(ctx: Context, payload: Sleeper) -> Outcome | None:
    """Sleep awake, asking for the lease now and then; come back a few times."""
    slept = int(ctx.state.get("naps", 0))
    ticks = int(payload.seconds / (payload.snoozes + 1) / 0.1)
    for tick in range(ticks):
        time.sleep(0.1)
        ctx.heartbeat()
        if tick % 5 == 0:
            ctx.progress(tick, ticks, f"nap {slept}")
    if slept < payload.snoozes:
        ctx.checkpoint(state={"naps": slept + 1})
        return Snooze(delay_seconds=0.5, reason="one more nap")
    ctx.once("slept", _enter, ctx, "slept")
    return None
