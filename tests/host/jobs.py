"""One configurable kind: every behavior of a handler that a test may want."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Literal

from pydantic import BaseModel

from buildqueue.exceptions import Rejected, Unavailable
from buildqueue.queue.context import Context
from buildqueue.queue.handlers import handler
from buildqueue.queue.outcomes import Done, Fail, Outcome, Retry, Snooze

from .models import Effect

Behavior = Literal[
    "ok",
    "result",
    "fail",
    "retry",
    "snooze",
    "raise",
    "rejected",
    "unavailable",
    "exit",
    "segfault",
    "kill",
    "recursion",
    "memory",
    "hang",
    "hang_in_c",
    "print",
    "leave_children",
    "system_exit",
]


class Probe(BaseModel, extra="forbid", frozen=True):
    """What a probe does, and how many attempts do it before it goes well."""

    kind: Literal["probe", "isolated_probe"] = "probe"
    behavior: Behavior = "ok"
    until_attempt: int = 1_000_000  # attempts up to this one misbehave
    label: str = ""
    seconds: float = 600.0
    lines: int = 1


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
        case "snooze":
            return Snooze(delay_seconds=0)
        case "raise":
            raise ValueError("told to raise")
        case "rejected":
            raise Rejected("told_to", "told to reject")
        case "unavailable":
            raise Unavailable("told_to", "told to be unavailable")
        case "system_exit":
            sys.exit(3)
        case "print":
            _print(payload.lines)
        case "leave_children":
            child = [sys.executable, "-c", "import time; time.sleep(600)"]
            subprocess.Popen(child, start_new_session=True)
        case _:
            _die(payload)
    return None


def _print(lines: int) -> None:
    for number in range(lines):
        sys.stdout.write(f"out {number}\n")
    sys.stdout.flush()
    sys.stderr.write("err\n")
    sys.stderr.flush()


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
        case "hang":
            time.sleep(payload.seconds)
        case "hang_in_c":
            # PyDLL keeps the interpreter lock: no other thread of the process runs.
            ctypes.PyDLL(None).sleep(int(payload.seconds))


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
