"""Which files are the product, and what do they say?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "buildqueue"


def product_files() -> list[Path]:
    """Return every Python file that is shipped, written by hand."""
    files = PACKAGE.rglob("*.py")
    return sorted(path for path in files if "migrations" not in path.parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the file's syntax tree."""
    return ast.parse(path.read_text(), str(path))


def named(path: Path) -> str:
    """Return the file's name as people say it."""
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Return every function of a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Return the calls of a function or method by its last name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        last = called.attr if isinstance(called, ast.Attribute) else None
        if isinstance(called, ast.Name):
            last = called.id
        if last == name:
            yield node


def keywords(call: ast.Call) -> dict[str, str]:
    """Return the keyword arguments of a call, as they are written."""
    return {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
