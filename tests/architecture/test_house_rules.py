"""Is every file short, does it say what it answers, and does no test sleep?"""

from __future__ import annotations

import ast
import statistics

from .product import ROOT, calls, named, product_files, tree_of

MOST_LINES = 400
LINE_LIMITS = {"buildqueue/management/commands/runworker.py": 100}


def test_no_product_file_is_longer_than_a_reader_bears() -> None:
    lengths = {
        named(path): len(path.read_text().splitlines()) for path in product_files()
    }

    long = {
        name: lines
        for name, lines in lengths.items()
        if lines > LINE_LIMITS.get(name, MOST_LINES)
    }
    assert long == {}
    assert statistics.median(lengths.values()) <= 150


def test_every_module_says_which_question_it_answers() -> None:
    silent = [
        named(path)
        for path in product_files()
        if path.read_text().strip() and not ast.get_docstring(tree_of(path))
    ]

    assert silent == []


def test_every_product_file_has_its_annotations_evaluated_late() -> None:
    without = [
        named(path)
        for path in product_files()
        if len(tree_of(path).body) > 1
        and "from __future__ import annotations" not in path.read_text()
    ]

    assert without == []


def test_no_test_sleeps() -> None:
    """Waiting is `tests.support.waiting.wait_until`; handlers of the host may hang."""
    allowed = {"tests/support/waiting.py"}
    sleepers = [
        named(path)
        for path in (ROOT / "tests").rglob("*.py")
        if named(path) not in allowed
        and path.name.startswith(("test_", "conftest"))
        and any(calls(ast.parse(path.read_text()), "sleep"))
    ]

    assert sleepers == []


def test_no_shell_is_ever_asked() -> None:
    asked = [
        f"{named(path)}:{node.lineno}"
        for path in product_files()
        for node in ast.walk(tree_of(path))
        if (
            isinstance(node, ast.Call)
            and any(
                keyword.arg == "shell" and ast.unparse(keyword.value) != "False"
                for keyword in node.keywords
            )
        )
        or (
            isinstance(node, ast.Attribute)
            and ast.unparse(node) in {"os.system", "os.popen"}
        )
    ]

    assert asked == []


def test_nothing_is_left_to_do_later() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" + "XX")
    left = [
        f"{named(path)}: {mark}"
        for path in product_files()
        for mark in marks
        if mark in path.read_text()
    ]

    assert left == []
