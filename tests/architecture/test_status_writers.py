"""Has every status one writer? A job's is `queue/transitions/`; those of agents,
builds, versions, deployments and connectors are written in `builds/lifecycle/`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .product import ROOT, functions, named, product_files, tree_of

WRITERS = {
    "buildqueue/queue/transitions/changing.py",  # the job's
    "buildqueue/queue/transitions/endings.py",  # the job's
    "buildqueue/queue/transitions/taking.py",  # the job's
    "buildqueue/queue/transitions/actionflow.py",  # the action's
    "buildqueue/queue/enqueueing.py",  # the INSERT of a job
    "buildqueue/queue/actions.py",  # the INSERT of an action that is proposed
    "buildqueue/queue/outbox/sending.py",  # the notice's
    "buildqueue/builds/versions.py",  # the INSERT of a version that is reserved
    "buildqueue/builds/proposals.py",  # the proposal's
    "buildqueue/builds/watches.py",  # the watch's, for a person
    "buildqueue/builds/watchchecks.py",  # the watch's, after its failures
}
DOMAIN = "buildqueue/builds/lifecycle/"
# A worker tells its own row's state, and a duty that of a dead worker.
OF_WORKERS = {
    "buildqueue/worker/duties.py",
    "buildqueue/worker/listener.py",
    "buildqueue/worker/registration.py",
}
WRITING = {"update", "create", "get_or_create", "update_or_create", "bulk_update"}
MODELS = {
    "Agent",
    "AgentBuild",
    "AgentDeployment",
    "AgentVersion",
    "BuildJob",
    "JobAction",
    "McpConnector",
    "McpConnectorBuild",
    "Notice",
    "Proposal",
    "SourceWatch",
    "Worker",
}
COLUMNS = {"status", "build_status", "setup_status"}
SQL = re.compile(
    r"UPDATE\s+buildqueue_(\w+)\b(?:(?!WHERE).)*?\bSET\b(?:(?!WHERE).)*?\bstatus\s*=",
    re.S | re.I,
)


def _called(node: ast.Call) -> str:
    called = node.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _saves(tree: ast.Module) -> bool:
    """Tell whether a module saves rows: only then an attribute may be a column."""
    called = {_called(n) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return bool(called & {"save", "asave", "bulk_update"})


def _writes(function: ast.FunctionDef, *, saves: bool) -> Iterator[int]:
    """Return the lines at which a function writes a status."""
    updates = False
    keys: list[int] = []
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets) if saves:
                for target in targets:
                    if isinstance(target, ast.Attribute) and target.attr in COLUMNS:
                        yield node.lineno
            case ast.Call():
                name = _called(node)
                updates |= name in WRITING
                if name in WRITING | MODELS and COLUMNS & {
                    keyword.arg for keyword in node.keywords
                }:
                    yield node.lineno
            case ast.Dict(keys=found):
                keys += [
                    key.lineno
                    for key in found
                    if isinstance(key, ast.Constant) and key.value in COLUMNS
                ]
    if updates:
        yield from keys


def _writers() -> dict[str, list[int]]:
    found: dict[str, set[int]] = {}
    for path in product_files():
        tree = tree_of(path)
        saves = _saves(tree)
        lines = {
            line for made in functions(tree) for line in _writes(made, saves=saves)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                lines |= {node.lineno for _ in SQL.finditer(node.value)}
        if lines:
            found[named(path)] = lines
    return {name: sorted(lines) for name, lines in found.items()}


def test_a_status_is_written_only_by_its_writer() -> None:
    strangers = {
        name: lines
        for name, lines in _writers().items()
        if name not in WRITERS | OF_WORKERS and not name.startswith(DOMAIN)
    }

    assert strangers == {}


def test_the_search_finds_the_writers_it_knows() -> None:
    found = set(_writers())

    assert found >= WRITERS
    assert any(name.startswith(DOMAIN) for name in found)


def test_workers_write_no_status_but_their_own() -> None:
    for name in OF_WORKERS & set(_writers()):
        text = (ROOT / name).read_text()
        assert set(SQL.findall(text)) <= {"worker"}, name
        assert "JobStatus" not in {
            ast.unparse(keyword.value).split(".")[0]
            for node in ast.walk(tree_of(ROOT / name))
            if isinstance(node, ast.Call) and _called(node) == "update"
            for keyword in node.keywords
            if keyword.arg == "status"
        }, name


def test_the_edges_change_a_job_only_by_a_verb() -> None:
    """No admin, API or command calls the engine's one writer behind the verbs' back."""
    edges = ("buildqueue/admin/", "buildqueue/api/", "buildqueue/management/")
    found = [
        named(path)
        for path in product_files()
        if named(path).startswith(edges)
        and any(
            isinstance(node, ast.ImportFrom)
            and any(alias.name == "transitions" for alias in node.names)
            for node in ast.walk(tree_of(path))
        )
    ]

    assert found == []
