"""Does every promise name tests, and do these tests exist?"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verification.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
ROW = re.compile(
    r"^\| ([NMPHX]\d\d(?:, [NMPHX]\d\d)*) \| (.+?) \| (.*?) \| (.*?) ?\|$", re.M
)


@cache
def _tests_of(path: str) -> set[str]:
    file = ROOT / path
    if not file.exists():
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_named_test_exists(path: str, name: str) -> None:
    assert name in _tests_of(path), f"{path} has no {name}"


def _numbered(letter: str, *numbers: int) -> set[str]:
    return {f"{letter}{number:02}" for number in numbers}


PROMISED = (
    _numbered("N", *range(1, 13), *range(20, 33), 40, 41, *range(43, 49))
    | _numbered("M", *range(1, 53))
    | _numbered("X", *range(1, 10), 11, 12, 13, 14, 16, 17, 20)
    | _numbered("H", 13, 15)
    | _numbered("P", 1, 2, 3, 9, 10, 13, 15, 16)
)


def test_every_row_that_is_promised_is_there_once() -> None:
    rows = [row for found in ROW.findall(PAGE) for row in found[0].split(", ")]

    assert len(rows) == len(set(rows))
    assert set(rows) >= PROMISED


def test_every_row_names_at_least_one_test() -> None:
    lines = [line for line in PAGE.splitlines() if re.match(r"\| [NMPHX]\d\d", line)]

    assert lines
    assert len(lines) == len(ROW.findall(PAGE))
    for line in lines:
        assert "::test_" in line, line
