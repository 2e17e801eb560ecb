"""Kinds that print: in steps, very much, or a line now and then."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from buildqueue.queue import logmarks
from buildqueue.queue.context import Context
from buildqueue.queue.handlers import handler
from buildqueue.queue.outcomes import Done

CHILD = "import sys; print('child of build'); print('error of child', file=sys.stderr)"


class PrintsInSteps(BaseModel, extra="forbid", frozen=True):
    """Lines before, in and after steps, by the handler and by a program it starts."""

    kind: Literal["prints_in_steps"] = "prints_in_steps"
    forged: bool = False


@handler("prints_in_steps", payload=PrintsInSteps)
def prints_in_steps(ctx: Context, payload: PrintsInSteps) -> None:
    """Print to both streams in each place."""
    sys.stdout.write("before, without an end")
    with ctx.step("fetch; 50%", transaction=False):
        _both("fetch")
    with ctx.step("build", transaction=False):
        _both("build")
        subprocess.run([sys.executable, "-c", CHILD], check=True)
        if payload.forged:
            sys.stdout.write(logmarks.mark(ctx.job.pk, "forged") + "of no run\n")
            sys.stdout.write(logmarks.BEGINNING * 3 + "cut off\n")
            sys.stdout.write(logmarks.mark(ctx.lease_id, "forged") + "its own\n")
    _both("after")


def _both(word: str) -> None:
    sys.stdout.write(f"{word} out\n")
    sys.stderr.write(f"{word} err\n")


class ManyLines(BaseModel, extra="forbid", frozen=True):
    """As many lines as fast as a program can print them."""

    kind: Literal["many_lines"] = "many_lines"
    lines: int


@handler("many_lines", payload=ManyLines)
def many_lines(ctx: Context, payload: ManyLines) -> Done:
    """Have one program print them all."""
    program = f"for n in range({payload.lines}): print('line', n)"
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True)
    return Done(result={"lines_a_second": payload.lines / (time.monotonic() - begun)})


class Ticks(BaseModel, extra="forbid", frozen=True):
    """A line now and then, and bursts of them, that say when they were printed."""

    kind: Literal["ticks"] = "ticks"
    path: str  # what it waits for once it is ready
    ticks: int


@handler("ticks", payload=Ticks)
def ticks(ctx: Context, payload: Ticks) -> None:
    """Print the moment, by the clock that all processes of a machine share."""
    never = threading.Event()
    ctx.log("ready")
    while not Path(payload.path).exists() and not ctx.cancelled:
        never.wait(0.02)
    for number in range(payload.ticks):
        ctx.log(f"tick {time.monotonic()}")
        never.wait(0.02 if number % 4 else 0.13 + number % 7 * 0.09)
