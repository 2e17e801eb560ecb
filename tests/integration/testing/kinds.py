"""Which kinds do the tests of `buildqueue.testing` run? Each a function, for one test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import TestCase
from unittest.mock import patch

from pydantic import BaseModel

from buildqueue.queue import handlers
from buildqueue.queue.context import Context


class Anything(BaseModel, extra="allow"):
    """A payload that may be anything."""

    kind: str


def add(test: TestCase, kind: str, function: Any, **options: Any) -> None:
    """Register a kind until the test ends."""
    made = handlers.Handler(kind=kind, function=function, payload=Anything, **options)
    patched = patch.dict(handlers._handlers, {kind: made})
    patched.start()
    test.addCleanup(patched.stop)


def spawning(outcome: Any, *kinds: str) -> Callable[[Context, Any], Any]:
    """Return a handler that has children and waits for them."""

    def parent(ctx: Context, payload: Anything) -> Any:
        for kind in kinds:
            ctx.spawn(kind, {"kind": kind})
        if any(not child.is_final for child in ctx.children()):
            return outcome
        return None

    return parent
