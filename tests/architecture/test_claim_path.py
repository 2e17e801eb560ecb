"""Does `runworker` take its jobs by the one claim, from rows locked with SKIP LOCKED?"""

from __future__ import annotations

import ast
import uuid
from datetime import timedelta

import grimp
import pytest
from django.db import transaction

from buildqueue.queue import claiming
from buildqueue.queue.transitions import Holder, taking

from .product import PACKAGE, calls, functions, keywords, named, product_files, tree_of


def _function(module: str, name: str) -> ast.FunctionDef:
    [found] = [f for f in functions(tree_of(PACKAGE / module)) if f.name == name]
    return found


def test_runworker_leads_to_the_claim() -> None:
    graph = grimp.build_graph("buildqueue")
    command = "buildqueue.management.commands.runworker"
    nursery, template = "buildqueue.worker.nursery", "buildqueue.worker.template"

    # The nursery starts the template as a program; all else are imports.
    started = [
        node.value
        for node in ast.walk(tree_of(PACKAGE / "worker/nursery.py"))
        if isinstance(node, ast.Constant) and node.value == template
    ]
    chain = graph.find_shortest_chain(template, "buildqueue.queue.claiming")

    assert graph.find_shortest_chain(command, nursery)
    assert started
    assert chain is not None
    assert chain[-2] == "buildqueue.worker.slot"


def test_a_slot_takes_jobs_by_the_claim_and_nobody_takes_them_otherwise() -> None:
    called = {
        (ast.unparse(node.func), named(path))
        for path in product_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
    }

    assert ("claiming.claim", "buildqueue/worker/slot.py") in called
    takers = {where for what, where in called if what.endswith("transitions.take")}
    assert takers == {"buildqueue/queue/claiming.py"}


def test_the_claim_takes_what_the_candidates_are() -> None:
    claim = _function("queue/claiming.py", "claim")
    [take] = list(calls(claim, "take"))

    assert ast.unparse(take.args[0]).startswith("candidates(")


def test_the_candidates_are_a_queryset_that_skips_locked_rows() -> None:
    candidates = _function("queue/claiming.py", "candidates")
    [lock] = list(calls(candidates, "select_for_update"))

    assert keywords(lock)["skip_locked"] == "True"
    assert keywords(lock)["no_key"] == "True"


@pytest.mark.django_db
def test_the_statement_that_is_run_skips_locked_rows() -> None:
    who = Holder(worker=uuid.uuid4(), slot=uuid.uuid4(), pid=1, lease=timedelta(1))
    with transaction.atomic():
        candidates = claiming.candidates("default", claiming.Scope(), 1)
        statement, _ = taking.claim_sql(candidates, who)

    chosen, _, taken = statement.partition("taken AS (")
    assert 'FOR NO KEY UPDATE OF "buildqueue_buildjob" SKIP LOCKED' in chosen
    assert "WITH candidates AS MATERIALIZED" in chosen
    assert "UPDATE buildqueue_buildjob AS job" in taken
    assert "lease_id = gen_random_uuid()" in taken
