"""Is every code that a job can end with documented?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.product import ROOT, named, product_files, tree_of

PAGE = (ROOT / "docs/reference/job-codes.md").read_text()
ENGINE = ("buildqueue/queue/", "buildqueue/worker/")


def _codes(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (
                k.value.value
                for k in node.keywords
                if k.arg in {"code", "error_code"} and _is_text(k.value)
            )
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            raised = called in {"Rejected", "Unavailable"} and node.args
            if raised and _is_text(node.args[0]):
                yield node.args[0].value
            if called == "_unknown" and _is_text(node.args[1]):  # of failures.py
                yield node.args[1].value
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if _is_text(key) and key.value == "error_code" and _is_text(value):
                    yield value.value


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


FOUND = sorted(
    {
        code
        for path in product_files()
        if named(path).startswith(ENGINE)
        for code in _codes(tree_of(path))
    }
)


def test_codes_are_found() -> None:
    assert {"exception", "max_attempts_exhausted", "timed_out"} <= set(FOUND)


@pytest.mark.parametrize("code", FOUND)
def test_a_code_of_the_engine_is_documented(code: str) -> None:
    assert f"`{code}`" in PAGE
