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
    r"^\| ([NMPH]\d\d(?:, [NMPH]\d\d)*) \| (.+?) \| (.*?) \| (.*?) ?\|$", re.M
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


def test_every_row_of_the_queue_is_there_once() -> None:
    rows = [row for found in ROW.findall(PAGE) for row in found[0].split(", ")]

    assert len(rows) == len(set(rows))
    assert {f"N{number:02}" for number in range(1, 13)} <= set(rows)


def test_every_row_names_at_least_one_test() -> None:
    lines = [line for line in PAGE.splitlines() if re.match(r"\| [NMPH]\d\d", line)]

    assert lines
    assert len(lines) == len(ROW.findall(PAGE))
    for line in lines:
        assert "::test_" in line, line
