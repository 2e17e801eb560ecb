"""What do the engine's tests share? Kinds with hooks, a run to be, an ear and a pager."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from pydantic import BaseModel

from buildqueue.models import BuildJob
from buildqueue.queue import handlers
from buildqueue.queue.context import Context
from tests.support.attempts import run_of
from tests.support.notices import Notices, listening

AddKind = Callable[..., str]


class Free(BaseModel):
    """A payload that may be anything."""

    kind: str


@pytest.fixture
def add_kind(monkeypatch: pytest.MonkeyPatch) -> AddKind:
    """Register a kind for one test; hooks are its options."""

    def add(
        *,
        on_final: Callable[[BuildJob], None] | None = None,
        on_reopen: Callable[[BuildJob], None] | None = None,
        **options: Any,
    ) -> str:
        kind = f"kind_{uuid.uuid4().hex}"
        made = handlers.Handler(
            kind=kind,
            function=options.pop("function", lambda ctx, payload: None),
            payload=options.pop("payload", Free),
            on_final=on_final,
            on_reopen=on_reopen,
            **options,
        )
        monkeypatch.setitem(handlers._handlers, kind, made)
        return kind

    return add


@pytest.fixture
def ctx(committed: None) -> Iterator[Context]:
    """Be the run of a job."""
    with run_of() as made:
        yield made


@pytest.fixture
def notices(committed: None) -> Iterator[Notices]:
    """Hear the wake-ups of a test that commits."""
    with listening(connection.settings_dict["NAME"]) as heard:
        yield heard


@pytest.fixture
def pager() -> Iterator[None]:
    """Have somebody who wants to be told of everything."""
    everything = {"name": "pager", "events": ["*"], "email": ["ops@example.com"]}
    with override_settings(BUILDQUEUE={"NOTICES": [everything]}):
        yield
