"""Which codes are raised in the packages of the build system?

The source is read, not run. A code is the first argument of an error, the `code` of a
report, or beside an error's class in a table. Where it is a parameter, whoever calls the
function gives it, and is read in its place; where it is a name, the name's value counts.
What cannot be followed is told as such, so that a test can refuse it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.architecture.product import named, product_files, tree_of

PACKAGES = (
    "buildqueue/backends/",
    "buildqueue/builds/",
    "buildqueue/executors/",
)
ERRORS = frozenset({"Rejected", "Unavailable", "Refused", "Cancelled"})
KEYWORDS = frozenset({"code", "error_code"})
CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
PASSED_ON = re.compile(r"[a-z_]+\.code")  # of an error that was raised elsewhere

Function = ast.FunctionDef | ast.AsyncFunctionDef
Helpers = dict[str, dict[str, int]]  # name -> file -> which argument is the code


@dataclass(slots=True)
class Raised:
    """What was found: codes, with a place each, and what could not be followed."""

    codes: dict[str, str] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)


def scan() -> Raised:
    """Return the codes that the packages raise."""
    shipped = {named(path): path for path in product_files()}
    return read(
        {name: tree_of(shipped[name]) for name in shipped if name.startswith(PACKAGES)}
    )


def read(trees: Mapping[str, ast.Module]) -> Raised:
    """Return the codes that the files raise: again until no other function gives one."""
    values = {name: value for tree in trees.values() for name, value in _values(tree)}
    helpers: Helpers = {}
    while True:
        found, known = Raised(), _count(helpers)
        for place, tree in trees.items():
            _Reader(place, values, helpers, found).visit(tree)
        if _count(helpers) == known:
            return found


def _count(helpers: Helpers) -> int:
    return sum(map(len, helpers.values()))


def _values(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        target, value = None, None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        if isinstance(value, ast.Tuple) and value.elts:
            value = value.elts[0]  # given as the first arguments, with a star
        if isinstance(target, ast.Name) and target.id.isupper() and is_text(value):
            yield target.id, value.value


def is_text(node: ast.AST | None) -> bool:
    """Tell whether the node is a text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class _Reader(ast.NodeVisitor):
    def __init__(
        self, place: str, values: dict[str, str], helpers: Helpers, found: Raised
    ) -> None:
        self._place, self._values = place, values
        self._helpers, self._found = helpers, found
        self._functions: list[Function] = []
        self._own: set[str] = set()
        self._imported: dict[str, str] = {}  # name -> the file it is from

    def visit_Module(self, node: ast.Module) -> None:
        for each in ast.walk(node):
            if isinstance(each, Function):
                self._own.add(each.name)
            elif isinstance(each, ast.ImportFrom):
                file = (each.module or "").rpartition(".")[2] + ".py"
                self._imported |= {
                    (name.asname or name.name): file for name in each.names
                }
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions.append(node)
        self.generic_visit(node)
        self._functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node)
        at = 0 if name in ERRORS else self._code_argument(name)
        if at is not None and len(node.args) > at:
            self._code(node.args[at])
        for keyword in node.keywords:
            if keyword.arg in KEYWORDS and is_text(keyword.value):
                self._code(keyword.value)
        self.generic_visit(node)

    def _code_argument(self, name: str) -> int | None:
        """Return which argument of a function is a code: of the one meant by the name."""
        files = self._helpers.get(name, {})
        if name in self._own:
            return files.get(self._place)
        wanted = "/" + self._imported.get(name, "")
        return next((files[file] for file in files if wanted in file), None)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        """Read a row of a table: an error's class, and its code among the others."""
        if any(isinstance(each, ast.Name) and each.id in ERRORS for each in node.elts):
            for each in node.elts:
                text = self._text(each)
                if text is not None and CODE.fullmatch(text):
                    self._add(text, each)
        self.generic_visit(node)

    def _code(self, node: ast.expr) -> None:
        text = self._text(node)
        if isinstance(node, ast.IfExp):
            self._code(node.body)
            self._code(node.orelse)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                self._code(value)
        elif text is not None:
            self._add(text, node)
        elif isinstance(node, ast.Name) and self._is_parameter(node.id):
            pass
        elif isinstance(node, ast.Name) and (given := self._given(node.id)):
            for value in given:
                self._code(value)
        elif not isinstance(node, ast.Constant):
            self._unclear(node)

    def _text(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Starred):
            return self._text(node.value)
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        return self._values.get(name)

    def _given(self, name: str) -> list[ast.expr]:
        """Return what the function around assigns to the name."""
        around = ast.walk(self._functions[-1]) if self._functions else ()
        return [
            node.value
            for node in around
            if isinstance(node, ast.Assign)
            and [ast.unparse(target) for target in node.targets] == [name]
        ]

    def _is_parameter(self, name: str) -> bool:
        for function in reversed(self._functions):
            names = [each.arg for each in function.args.args if each.arg != "self"]
            if name in names:
                files = self._helpers.setdefault(function.name, {})
                files[self._place] = names.index(name)
                return True
            if name in [each.arg for each in function.args.kwonlyargs]:
                return True  # given as a keyword: read there when it is `code`
        return False

    def _add(self, code: str, node: ast.AST) -> None:
        self._found.codes.setdefault(code, f"{self._place}:{node.lineno}")

    def _unclear(self, node: ast.expr) -> None:
        told = ast.unparse(node)
        if not PASSED_ON.fullmatch(told):
            self._found.unclear.append(f"{self._place}:{node.lineno}: {told}")


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
