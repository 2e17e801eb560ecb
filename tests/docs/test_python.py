"""Is every public name of Python documented, with what it takes, and no other?"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import pytest
from django.dispatch import Signal

import buildqueue
from buildqueue import exceptions, signals, testing
from buildqueue.queue import actions, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Outcome

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()
ROW = re.compile(r"^\| `([^`]+)` \|", re.M)
ENGINES_OWN = {"session", "alarm", "blocks", "outside", "tell", "record"}
# Between the raised ones and the root, or of backends alone.
NOT_MET = {
    "BuildQueueError",
    "HandlerError",
    "ActionError",
    "BackendError",
    "Cancelled",
}


def _section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def _documented(heading: str) -> dict[str, str]:
    """Return what each name of a section takes, in one way of writing it."""
    rows = ROW.findall(_section(heading))
    found = {row.partition("(")[0]: row for row in rows}
    assert len(found) == len(rows)
    return {name: _written(row.removeprefix(name)) for name, row in found.items()}


def _written(signature: str) -> str:
    return ast.unparse(ast.parse(f"def f{signature or '()'}: ..."))


def _taken(function: Callable[..., Any]) -> str:
    """Return what a function takes, by its names and defaults, as the page writes it."""
    signature = inspect.signature(function)
    plain = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=parameter.default.value
            if isinstance(parameter.default, Enum)
            else parameter.default,
        )
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    bare = signature.replace(
        parameters=plain, return_annotation=inspect.Signature.empty
    )
    return _written(str(bare))


def _context() -> dict[str, str]:
    public = {name for name in dir(Context) if not name.startswith("_")} - ENGINES_OWN
    held = {name: inspect.getattr_static(Context, name) for name in public}
    return {
        f"ctx.{name}": _taken(value) if inspect.isfunction(value) else _written("")
        for name, value in held.items()
    }


def _of(module: Any, names: Any, prefix: str = "") -> dict[str, str]:
    return {f"{prefix}{name}": _taken(getattr(module, name)) for name in names}


OUTCOMES = {outcome.__name__ for outcome in get_args(Outcome)}
VALUES = {"Field", "Limits", "Backoff"}
FUNCTIONS = set(buildqueue.__all__) - OUTCOMES - VALUES - {"Context"}
VERBS = {name for name in verbs.__all__ if inspect.isfunction(getattr(verbs, name))}


def test_every_name_of_a_context_is_documented_with_what_it_takes() -> None:
    assert _documented("Context") == _context()
    assert set(re.findall(r"`(\w+)`", _section("Context").splitlines()[-1])) == (
        ENGINES_OWN
    )


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Outcomes", _of(buildqueue, OUTCOMES)),
        ("Values", _of(buildqueue, VALUES)),
        ("Functions", _of(buildqueue, FUNCTIONS)),
        ("Verbs", _of(verbs, VERBS, "verbs.")),
        ("Actions", _of(actions, ("approve", "deny", "settle"), "actions.")),
    ],
)
def test_a_section_has_exactly_the_names_there_are_with_what_they_take(
    heading: str, expected: dict[str, str]
) -> None:
    assert _documented(heading) == expected


def test_every_name_for_tests_is_documented_and_functions_with_what_they_take() -> None:
    documented = _documented("Testing")

    assert set(documented) == set(testing.__all__)
    for name in testing.__all__:
        if inspect.isfunction(getattr(testing, name)):
            assert documented[name] == _taken(getattr(testing, name)), name


def test_every_exception_that_a_host_meets_is_documented() -> None:
    there = {
        name
        for name, value in vars(exceptions).items()
        if inspect.isclass(value) and issubclass(value, exceptions.BuildQueueError)
    }

    assert set(_documented("Exceptions")) == there - NOT_MET
    assert all(f"`{name}`" in _section("Exceptions") for name in NOT_MET)


def test_every_signal_is_documented() -> None:
    assert set(_documented("Signals")) == {
        name
        for name, value in vars(signals).items()
        if name.startswith("job_") and isinstance(value, Signal)
    }


def test_the_permission_of_a_verb_is_the_one_that_the_admin_needs() -> None:
    rows = re.findall(
        r"^\| `verbs\.(\w+)\([^`]*` \| `(\w+)` \|", _section("Verbs"), re.M
    )
    needed = {name: permission for name, (_, _, permission) in verbs.VERBS.items()}
    needed |= {"retry_many": needed["retry"], "answer": verbs.MAY_ANSWER}
    needed |= dict.fromkeys(("change_priority", "change_due"), verbs.MAY_RESCHEDULE)

    assert {name: f"buildqueue.{permission}" for name, permission in rows} == needed
