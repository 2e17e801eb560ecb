"""Is whatever a terminal can send taken for what it is, or refused in words?"""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from tests.factories import make_job

pytestmark = pytest.mark.django_db
BYTES = b"ab\xffcd".decode("utf-8", "surrogateescape")


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("buildqueue", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("command", ["list", "actions", "notices"])
def test_no_list_is_longer_than_anybody_reads(command: str) -> None:
    with pytest.raises(CommandError, match="whole number from 1 to 100000"):
        run(command, "--limit", "9" * 23)

    run(command, "--limit", "100000")


@pytest.mark.parametrize("typed", [BYTES, "ab\x00cd", "\ud800" * 5])
def test_bytes_that_are_no_text_find_nothing(typed: str) -> None:
    make_job()

    for option in ("--kind", "--queue", "--code"):
        assert "probe" not in run("list", option, typed)
    for command in (
        ["show"],
        ["logs"],
        ["cancel"],
        ["approve"],
        ["notices", "--resend"],
    ):
        with pytest.raises(CommandError, match="begins with"):
            run(*command, typed)


def test_bytes_that_are_no_text_are_no_answer() -> None:
    job = make_job("waiting_input")

    with pytest.raises(CommandError):
        run("answer", str(job.pk), f"{BYTES}={BYTES}")
