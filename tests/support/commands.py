"""What does `manage.py buildqueue` say, and how does it refuse?"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command


def run(*arguments: str) -> str:
    """Run the command, and return what it printed."""
    out = io.StringIO()
    call_command("buildqueue", *arguments, stdout=out)
    return out.getvalue()


def refusal(*arguments: str) -> CommandError:
    """Run the command, and return the error by which it refuses, as it must."""
    with pytest.raises(CommandError) as told:
        run(*arguments)
    return told.value


def answered(*arguments: str) -> Any:
    """Run the command for a program, and return its one document."""
    return json.loads(run(*arguments, "--json"))


def documented_refusal(*arguments: str) -> tuple[CommandError, str]:
    """Run the command, which must refuse; return the error, and what it printed."""
    out = io.StringIO()
    with pytest.raises(CommandError) as told:
        call_command("buildqueue", *arguments, stdout=out)
    return told.value, out.getvalue()
