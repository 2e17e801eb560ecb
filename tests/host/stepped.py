"""Kinds that work in steps, and die in the middle of them as they are told."""

from __future__ import annotations

import os
import random
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from django.db import connection
from pydantic import BaseModel

from buildqueue.models import JobAction
from buildqueue.queue.context import Context
from buildqueue.queue.handlers import handler
from buildqueue.queue.outcomes import Done

from .models import Effect

POINTS = (
    "before the effect",
    "after the effect",
    "before the commit",
    "after the commit",
)


def die() -> None:
    """End this process as an operator's or the kernel's SIGKILL does."""
    os.kill(os.getpid(), signal.SIGKILL)


class Ledger(BaseModel, extra="forbid", frozen=True):
    """A number of steps with an effect each; so many attempts die at some point."""

    kind: Literal["ledger"] = "ledger"
    label: str
    steps: int = 20
    deaths: int = 0
    seed: int = 0
    pause_seconds: float = 0.0
    hang_after: int | None = None  # in the first attempt, once this step has committed


@handler("ledger", payload=Ledger)
def ledger(ctx: Context, payload: Ledger) -> Done:
    """Write a line a step, and die in one of the next three if it is an attempt to."""
    done = Effect.objects.filter(label__startswith=f"{payload.label} ").count()
    chance = random.Random(f"{payload.seed} {payload.label} {ctx.attempt}")
    victim = min(done + chance.randrange(3), payload.steps - 1)
    point = chance.choice(POINTS) if ctx.attempt <= payload.deaths else ""
    for number in range(payload.steps):
        here = point if number == victim else ""
        if here:
            ctx.note(f"dies {here}")
        _enter(ctx, f"{payload.label} {number:02}", here)
        if number == payload.hang_after and ctx.attempt == 1:
            time.sleep(600)
        time.sleep(payload.pause_seconds)
    return Done(result={"steps": payload.steps})


def _enter(ctx: Context, label: str, point: str) -> None:
    with ctx.step(label) as step:
        if step.done:
            return
        _die_at(point, "before the effect")
        Effect.objects.create(label=label, attempt=ctx.attempt)
        _die_at(point, "after the effect")
        if point.endswith("the commit"):
            # Of the wrapper: what is left of this transaction is its end.
            connection.commit = _dying(connection.commit, point)  # type: ignore[method-assign]
        step.result = {"attempt": ctx.attempt}


def _die_at(point: str, here: str) -> None:
    if point == here:
        die()


def _dying(commit: Callable[[], None], point: str) -> Callable[[], None]:
    def run() -> None:
        _die_at(point, "before the commit")
        commit()
        die()

    return run


class Document(BaseModel, extra="forbid", frozen=True):
    """Find a source, fill a copy of it, prepare the reply; three attempts die."""

    kind: Literal["document"] = "document"
    folder: str


@handler("document", payload=Document, max_attempts=4)
def document(ctx: Context, payload: Document) -> Done:
    """Remember each result, and die right after it, and while the reply is prepared."""
    folder = Path(payload.folder)
    with ctx.step("find the source", transaction=False) as step:
        if not step.done:
            _count(folder / "downloads")
            (folder / "source.txt").write_text("Dear ____,")
            step.result = "source.txt"
    source = step.result
    _die_in(ctx, attempt=1)
    with ctx.step("fill the copy", transaction=False) as step:
        if not step.done:
            _count(folder / "fills")
            filled = (folder / source).read_text().replace("____", "Anna")
            (folder / "copy.txt").write_text(filled)
            ctx.checkpoint(state={"copy": "copy.txt"}, artifacts=["copy.txt"])
    _die_in(ctx, attempt=2)
    with ctx.step("prepare the reply") as step:
        if not step.done:
            Effect.objects.create(label="reply", attempt=ctx.attempt)
            _die_in(ctx, attempt=3)
            step.result = (folder / ctx.state["copy"]).read_text()
    return Done(result={"reply": step.result})


def _count(file: Path) -> None:
    with file.open("a") as lines:
        lines.write("once\n")


def _die_in(ctx: Context, *, attempt: int) -> None:
    if ctx.attempt == attempt:
        die()


class Posting(BaseModel, extra="forbid", frozen=True):
    """Tell somebody outside, once; the process dies when it has."""

    kind: Literal["posting"] = "posting"
    url: str
    label: str


@handler("posting", payload=Posting)
def posting(ctx: Context, payload: Posting) -> Done:
    """Post the label, and die before the answer is stored."""
    ctx.propose("post", {"label": payload.label}, title="Post it", review=False)

    def post(action: JobAction) -> dict[str, str]:
        request = urllib.request.Request(
            payload.url,
            data=action.content["label"].encode(),
            headers={"Webhook-Id": str(action.pk)},
        )
        with urllib.request.urlopen(request, timeout=60):
            die()
        return {}

    return Done(result=ctx.perform("post", post))
