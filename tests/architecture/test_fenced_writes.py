"""Can anything that runs for a job write for it without naming its lease?

What a run writes carries the lease, and the statement or the database's trigger looks at
it (tests/integration has both at work). Here: there is no way around.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from buildqueue.states import TRANSITIONS

from .product import PACKAGE, calls, functions, keywords, named, product_files, tree_of

OF_JOBS = {"buildjob", "jobrun", "checkpoint", "jobprogress", "jobaction", "jobevent"}
WRITE = re.compile(r"(?:UPDATE|INSERT\s+INTO|DELETE\s+FROM)\s+buildqueue_(\w+)", re.I)
ORM = {"create", "bulk_create", "get_or_create", "update_or_create", "bulk_update"}
ORM |= {"update", "save", "delete"}
# The claim makes the lease; an event tells what one statement with a fence has done.
MAKES_LEASES = "buildqueue/queue/transitions/taking.py"
RETENTION = "buildqueue/queue/retention.py"  # of jobs that have ended
EMPTY_ROW = "buildqueue/queue/records.py"  # makes the row that is then written


def _statements(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Yield every piece of SQL that writes, and the tables it writes to."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and (tables := set(WRITE.findall(text))):
            yield text, tables


def _orm_writes(tree: ast.AST) -> list[int]:
    """Return the lines that write by the ORM; a dict's `update` names no columns."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in ORM and (name != "update" or node.keywords):
                found.append(node.lineno)
    return found


def _in(folder: str) -> list[tuple[str, ast.Module]]:
    files = [path for path in product_files() if path.is_relative_to(PACKAGE / folder)]
    assert files
    return [(named(path), tree_of(path)) for path in files]


def test_the_worker_itself_writes_no_row_but_that_of_workers() -> None:
    by_orm = {name for name, tree in _in("worker") if _orm_writes(tree)}
    by_sql = {
        table
        for _, tree in _in("worker")
        for _, tables in _statements(tree)
        for table in tables
    }

    assert by_orm <= {
        "buildqueue/worker/registration.py",
        "buildqueue/worker/duties.py",
    }
    assert by_sql == {"worker"}


def test_every_change_that_a_worker_applies_names_the_lease() -> None:
    applied = [
        (name, call.lineno, keywords(call))
        for name, tree in _in("worker")
        for call in calls(tree, "apply")
    ]

    assert applied
    assert [found for found in applied if "fence" not in found[2]] == []


def test_no_transition_out_of_a_run_is_a_workers_without_a_fence() -> None:
    of_workers = [t for t in TRANSITIONS.values() if t.by == "worker"]

    assert len(of_workers) >= 5
    assert all(transition.fenced for transition in of_workers)


def test_sql_that_writes_for_a_job_looks_at_its_lease() -> None:
    unfenced = [
        (name, sorted(tables))
        for name, tree in _in("queue")
        for text, tables in _statements(tree)
        if tables & OF_JOBS
        and name not in {MAKES_LEASES, RETENTION, EMPTY_ROW}
        and "lease" not in text
    ]

    assert unfenced == []


def test_what_a_context_stores_carries_the_lease() -> None:
    """Saved columns name it; then the trigger of the database asks for it."""
    saved = [
        (name, call.lineno, keywords(call))
        for name, tree in _in("queue/context")
        for call in calls(tree, "save")
    ]
    others = {
        name: lines
        for name, tree in _in("queue/context")
        if (lines := set(_orm_writes(tree)) - {c.lineno for c in calls(tree, "save")})
    }

    assert saved
    assert [s for s in saved if "lease_id" not in s[2].get("update_fields", "")] == []
    assert others == {}


def test_a_context_hands_its_lease_to_whatever_takes_one() -> None:
    takers = {
        function.name
        for _, tree in _in("queue")
        for function in functions(tree)
        if "lease" in {a.arg for a in function.args.kwonlyargs}
    }
    given = [
        (name, call.lineno, taker, keywords(call))
        for name, tree in _in("queue/context")
        for taker in sorted(takers)
        for call in calls(tree, taker)
    ]

    assert takers
    assert given
    assert [found for found in given if "lease" not in found[3]] == []
