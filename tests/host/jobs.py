"""One configurable kind: every behavior of a handler that a test may want."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

from django.db import connection, transaction
from pydantic import BaseModel

from buildqueue.exceptions import Rejected, SoftTimeLimit, Unavailable
from buildqueue.queue.context import Context
from buildqueue.queue.handlers import handler
from buildqueue.queue.limits import Limits
from buildqueue.queue.outcomes import (
    Done,
    Fail,
    Outcome,
    Retry,
    Snooze,
    WaitForChildren,
)

from . import odd, printing, stepped, taking  # noqa: F401 (their kinds are registered)
from .models import Effect

Behavior = Literal[
    "ok",
    "result",
    "fail",
    "retry",
    "snooze",
    "raise",
    "raise_nul",
    "rejected",
    "unavailable",
    "exit",
    "segfault",
    "kill",
    "recursion",
    "memory",
    "hang",
    "hang_in_c",
    "hang_with_children",
    "hang_until_told",
    "ignore_term",
    "print",
    "print_bytes",
    "print_and_die",
    "die_in_step",
    "print_without_newline",
    "leave_children",
    "leave_transaction",
    "close_connection",
    "no_outcome",
    "system_exit",
    "burn_cpu",
    "eat_memory",
    "fork_many",
    "write_big",
    "pipeline",
    "soft_aware",
    "soft_deaf",
    "slow_step",
    "query",
    "bounds",
    "lost_lease",
    "cancelled",
    "keyboard",
    "generator_exit",
    "mute",
    "tampered",
    "leave_thread",
    "garble",
]


class Probe(BaseModel, extra="forbid", frozen=True):
    """What a probe does, and how many attempts do it before it goes well."""

    kind: Literal["probe", "isolated_probe", "limited_probe"] = "probe"
    behavior: Behavior = "ok"
    until_attempt: int = 1_000_000  # attempts up to this one misbehave
    label: str = ""
    seconds: float = 600.0
    lines: int = 1
    path: str = ""  # what `hang_until_told` waits for


def _behave(ctx: Context, payload: Probe) -> Outcome | None:
    if ctx.attempt > payload.until_attempt or payload.behavior == "ok":
        return None
    match payload.behavior:
        case "result":
            return Done(result={"label": payload.label})
        case "fail":
            return Fail(reason="told to fail", code="told_to")
        case "retry":
            return Retry(reason="told to retry", code="told_to", delay_seconds=0)
        case "slow_step":
            with ctx.step("slow", seconds=0.5):
                Effect.objects.create(label="never committed")
                time.sleep(payload.seconds)
        case "die_in_step":
            with ctx.step("deadly", transaction=False):
                os.kill(os.getpid(), signal.SIGKILL)
        case "bounds":
            return Done(result=taking.bounds())
        case "soft_aware":
            return _clear_up_in_time(payload)
        case "snooze":
            return Snooze(delay_seconds=0)
        case "raise":
            raise ValueError("told to raise")
        case "raise_nul":
            raise ValueError("a\x00b\udc80c")
        case "rejected":
            raise Rejected("told_to", "told to reject")
        case "unavailable":
            raise Unavailable("told_to", "told to be unavailable")
        case "system_exit":
            sys.exit(3)
        case "no_outcome":
            return "text"  # type: ignore[return-value]
        case "leave_children":
            _leave_child(payload)
        case "leave_thread":
            odd.leave_thread()
        case "garble":
            odd.garble()
        case "tampered":
            return odd.tampered()
        case "leave_transaction":
            transaction.atomic().__enter__()
            Effect.objects.create(label="never committed")
        case "close_connection":
            Effect.objects.exists()
            connection.connection.close()
        case _:
            _print(payload)
            _take(payload)
            _hang(payload)
            odd.end_oddly(ctx, payload.behavior)
            _die(payload)
    return None


def _print(payload: Probe) -> None:
    match payload.behavior:
        case "print":
            for number in range(payload.lines):
                sys.stdout.write(f"out {number}\n")
            sys.stdout.flush()
            sys.stderr.write("err\n")
            sys.stderr.flush()
        case "print_bytes":
            os.write(1, b"a\x00b\xff\xfe \xed\xa0\x80 \xf0\x9f\n")
        case "print_without_newline":
            os.write(1, b"is it alive?")
            _hang_until_told(payload)
        case "print_and_die":
            os.write(1, b"the last word\n")
            os.kill(os.getpid(), signal.SIGKILL)


def _take(payload: Probe) -> None:
    match payload.behavior:
        case "burn_cpu":
            taking.burn_cpu(payload.seconds)
        case "eat_memory":
            taking.eat_memory(payload.lines)
        case "fork_many":
            taking.fork_many(payload.lines)
        case "write_big":
            taking.write_big(payload.path, payload.lines)
        case "pipeline":
            taking.pipeline()


def _clear_up_in_time(payload: Probe) -> Outcome:
    try:
        time.sleep(payload.seconds)
    except SoftTimeLimit as limit:
        return Done(result={"stopped_after": limit.seconds})
    return Done(result={})


def _hear_no_soft_limit(payload: Probe) -> None:
    try:
        time.sleep(payload.seconds)
    except SoftTimeLimit:
        _hear_no_soft_limit(payload)


def _leave_child(payload: Probe) -> None:
    program = "import sys, time; print('child', flush=True); time.sleep(600)"
    child = [sys.executable, "-c", program, payload.label]
    subprocess.Popen(child, start_new_session=True)


def _hang_until_told(payload: Probe) -> None:
    deadline = time.monotonic() + payload.seconds
    while not Path(payload.path).exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def _hang(payload: Probe) -> None:
    match payload.behavior:
        case "hang":
            time.sleep(payload.seconds)
        case "hang_in_c":
            # PyDLL keeps the interpreter lock: no other thread of the process runs.
            ctypes.PyDLL(None).sleep(int(payload.seconds))
        case "hang_with_children":
            _leave_child(payload)
            time.sleep(payload.seconds)
        case "hang_until_told":
            _hang_until_told(payload)
        case "query":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_sleep(%s)", [payload.seconds])
        case "soft_deaf":
            _hear_no_soft_limit(payload)
        case "ignore_term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(payload.seconds)


def _die(payload: Probe) -> None:
    match payload.behavior:
        case "exit":
            os._exit(7)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "recursion":
            _die(payload)
        case "memory":
            raise MemoryError


@handler("probe", payload=Probe)
def probe(ctx: Context, payload: Probe) -> Outcome | None:
    """Behave as told, and leave one effect when it goes well."""
    outcome = _behave(ctx, payload)
    if outcome is None or isinstance(outcome, Done):
        Effect.objects.create(label=payload.label, attempt=ctx.attempt)
    return outcome


@handler("isolated_probe", payload=Probe, isolated=True)
def isolated_probe(ctx: Context, payload: Probe) -> Outcome | None:
    """Behave as told, in a process of its own."""
    return probe(ctx, payload)


@handler("limited_probe", payload=Probe, limits=Limits(time_seconds=1))
def limited_probe(ctx: Context, payload: Probe) -> Outcome | None:
    """Behave as told, for a second at most."""
    return probe(ctx, payload)


class Once(BaseModel, extra="forbid", frozen=True):
    """An effect that may be tried again without being doubled."""

    kind: Literal["once"] = "once"
    label: str


@handler("once", payload=Once)
def once(ctx: Context, payload: Once) -> None:
    """Leave the effect unless an earlier attempt has."""
    Effect.objects.get_or_create(label=payload.label, defaults={"attempt": ctx.attempt})


class OneStep(BaseModel, extra="forbid", frozen=True):
    """An effect in a step, whose first attempt waits before the step's end."""

    kind: Literal["one_step"] = "one_step"
    path: str  # what it waits for


@handler("one_step", payload=OneStep)
def one_step(ctx: Context, payload: OneStep) -> None:
    """Leave the effect, and wait with it not committed until told."""
    with ctx.step("effect") as step:
        if step.done:
            return
        Effect.objects.create(label=step.name, attempt=ctx.attempt)
        if ctx.attempt == 1:
            _hang_until_told(Probe(path=payload.path))


class Family(BaseModel, extra="forbid", frozen=True):
    """A tree of jobs that wait for each other, and what its leaves do."""

    kind: Literal["family"] = "family"
    depth: int = 1  # 0: a leaf
    children: int = 2
    on_failure: Literal["fail", "collect", "ignore"] = "fail"
    label: str = "family"
    deaths: int = 0  # attempts of a leaf that kill their process
    path: str = ""  # what a leaf waits for


@handler("family", payload=Family)
def family(ctx: Context, payload: Family) -> Outcome:
    """Wait for all below, then leave one effect, however often it is run."""
    for number in range(payload.children if payload.depth else 0):
        label = f"{payload.label}.{number}"
        below = {"depth": payload.depth - 1, "label": label}
        ctx.spawn(str(number), payload.model_copy(update=below))
    children = ctx.children()
    if any(not child.is_final for child in children):
        return WaitForChildren(on_failure=payload.on_failure)
    if not payload.depth:
        if ctx.attempt <= payload.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        if payload.path:
            _hang_until_told(Probe(path=payload.path))
    with ctx.step("effect") as step:
        if not step.done:
            Effect.objects.create(label=payload.label, attempt=ctx.attempt)
    return Done(result={"children": [child.status for child in children]})
