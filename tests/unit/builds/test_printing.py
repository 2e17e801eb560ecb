"""Is no secret printed by an executor, and no part of one, wherever a line is cut?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from buildqueue.backends.masking import Masker
from buildqueue.backends.processes import MAX_LINE_BYTES
from buildqueue.exceptions import Rejected, Unavailable
from buildqueue.executors.base import Run, masked_error

SECRET = "open-sesame-0123456789"


def run_into(lines: list[str]) -> Run:
    context = cast("Any", SimpleNamespace(log=lines.append))
    return Run(ctx=context, target_id=uuid4(), masker=Masker([SECRET]))


def test_a_line_is_printed_at_once_without_secrets() -> None:
    lines: list[str] = []
    run = run_into(lines)

    run.log(f"with {SECRET}.")
    run.log("open-ses")

    assert lines == ["with ***.", "open-ses"] == list(run.lines)


@pytest.mark.parametrize("inside", range(1, len(SECRET)))
def test_a_secret_that_a_long_line_is_cut_in_is_masked(inside: int) -> None:
    lines: list[str] = []
    run = run_into(lines)
    text = "x" * (MAX_LINE_BYTES - inside) + SECRET + "y"

    run.log(text[:MAX_LINE_BYTES])
    run.log(text[MAX_LINE_BYTES:])

    assert "".join(lines) == "x" * (MAX_LINE_BYTES - inside) + "***y"


@pytest.mark.parametrize("kind", [Rejected, Unavailable])
def test_an_error_keeps_all_but_the_secrets(
    kind: type[Rejected] | type[Unavailable],
) -> None:
    error = kind("some_code", f"it said {SECRET}", detail=repr(SECRET), exit_code=3)

    masked = masked_error(error, Masker([SECRET]))

    assert (type(masked), masked.code, str(masked)) == (
        kind,
        "some_code",
        "it said ***",
    )
    assert (masked.detail, masked.exit_code) == ("'***'", 3)
