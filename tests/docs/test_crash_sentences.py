"""Does every sentence about what holds after a crash name a test that kills there?

A module that says what is true if something dies has a row in the table of crashes in
docs/verification.md, with tests that kill there, or cut the connection at that point.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.product import ROOT, named, product_files

PAGE = (ROOT / "docs/verification.md").read_text()
SENTENCE = re.compile(
    r"(?:if|when|unless|instead)\s+(?:the\s+|this\s+|a\s+)?"
    r"(?:process|caller|server|daemon|it|guardian|that\s+one)\s+(?:itself\s+)?"
    r"(?:dies|is\s+killed)"
    r"|dying\s+half-way|(?:process|daemon|worker)\s+that\s+(?:dies|is\s+killed)",
    re.I,
)
SECTION = PAGE.partition("## Crashes")[2].partition("\n## ")[0]
ROWS = dict(re.findall(r"^\| `(buildqueue/[\w/]+\.py)` \| (.+?) \|$", SECTION, re.M))


def _docstrings_say_so(path: Path) -> bool:
    return bool(SENTENCE.search(path.read_text()))


SAYING = sorted(named(path) for path in product_files() if _docstrings_say_so(path))


def test_sentences_are_found() -> None:
    assert len(SAYING) > 20


@pytest.mark.parametrize("module", SAYING)
def test_a_module_that_speaks_of_crashes_has_its_tests(module: str) -> None:
    assert "::test_" in ROWS.get(module, ""), f"{module} has no row under Crashes"


def test_no_row_is_left_of_a_module_that_says_nothing() -> None:
    assert set(ROWS) <= set(SAYING)
