"""Does a job remember what was told it, and nothing that was told too late?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from buildqueue.exceptions import (
    InvalidOption,
    LostLeaseError,
    NotStorable,
    OutcomeUnknown,
)
from buildqueue.models import BuildJob, JobProgress
from buildqueue.queue import failures, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor, Fail
from buildqueue.queue.records import compare_and_swap, progress_of
from tests.support.attempts import next_attempt, run_of, taken_over
from tests.support.jobs import progress_row, story

ANNA = Actor(label="anna")
FIELDS: dict[str, Any] = {
    "state": {"page": 2},
    "evidence": [{"file": "b.txt"}],
    "plan": ["second"],
    "artifacts": ["b.pdf"],
}
BEFORE: dict[str, Any] = {
    "state": {"page": 1, "kept": True},
    "evidence": [{"file": "a.txt"}],
    "plan": ["first"],
    "artifacts": ["a.pdf"],
}

pytestmark = pytest.mark.usefixtures("committed")


def _remembered(job: BuildJob) -> dict[str, Any]:
    return {name: value for name, value in progress_row(job).items() if name in FIELDS}


@pytest.mark.parametrize(
    "names",
    [
        names
        for count in range(1, 5)
        for names in itertools.combinations(sorted(FIELDS), count)
    ],
    ids="+".join,
)
def test_only_what_is_given_changes_and_the_row_is_returned_as_it_is(
    ctx: Context, names: tuple[str, ...]
) -> None:
    ctx.checkpoint(**BEFORE)

    returned = ctx.checkpoint(**{name: FIELDS[name] for name in names})

    after = {name: FIELDS[name] for name in names}
    if "state" in after:
        after["state"] = {"page": 2, "kept": True}
    assert _remembered(ctx.job) == BEFORE | after
    stored = JobProgress.objects.get(pk=ctx.job.pk)
    for field in JobProgress._meta.concrete_fields:
        given, found = getattr(returned, field.attname), getattr(stored, field.attname)
        assert given == found, field.attname
    assert stored.lease_id == ctx.lease_id
    assert story(ctx.job)[-1] == ("checkpoint", ", ".join(sorted(names)))


def test_an_empty_list_replaces_and_what_is_not_given_is_kept(ctx: Context) -> None:
    ctx.checkpoint(**BEFORE)

    ctx.checkpoint(evidence=[], state={})

    assert _remembered(ctx.job) == BEFORE | {"evidence": []}


def test_a_later_attempt_finds_what_was_remembered_and_adds_to_it(
    ctx: Context,
) -> None:
    ctx.checkpoint(**BEFORE)

    with run_of(next_attempt(ctx)) as second:
        assert second.state == BEFORE["state"]
        second.progress(1, 2)
        second.checkpoint(state={"page": 2})
        assert second.state == {"page": 2, "kept": True}


def test_texts_in_a_checkpoint_are_made_fit(ctx: Context) -> None:
    ctx.checkpoint(state={"a": "\x00"}, evidence=["\ud800"], plan=["a\x00b"])

    row = _remembered(ctx.job)
    assert (row["state"], row["evidence"], row["plan"]) == ({"a": "␀"}, ["?"], ["a␀b"])


def test_what_is_no_json_is_refused_and_nothing_changes(ctx: Context) -> None:
    ctx.checkpoint(**BEFORE)

    with pytest.raises(NotStorable, match="no JSON"):
        ctx.checkpoint(state={"a": object()})

    assert _remembered(ctx.job) == BEFORE


def _nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {"a": made}
    return made


HOSTILE: list[Any] = [
    _nested(101),
    _nested(3000),
    {"a": float("nan")},
    {"a": object()},
    {"a": 10**5000},
    {("a",): 1},
    [1],
    "x",
    5,
    {"a": "x" * 5_000_000},
]


@pytest.mark.parametrize("document", HOSTILE, ids=range(len(HOSTILE)))
def test_what_cannot_be_stored_is_refused_at_once_and_nothing_changes(
    ctx: Context, document: Any
) -> None:
    ctx.checkpoint(**BEFORE)

    for given in ({"state": document}, {"plan": {"a": document}}, {"plan": [document]}):
        if given == {"plan": [document]} and not isinstance(document, dict):
            continue  # a scalar in a list is all right
        with pytest.raises(NotStorable):
            ctx.checkpoint(**given)
    for options in ({"expected": {}, "patch": document}, {"expected": document}):
        with pytest.raises(InvalidOption):
            compare_and_swap(ctx.job.pk, **{"patch": {}} | options)
    with pytest.raises(NotStorable):
        ctx.propose("k", document)

    assert _remembered(ctx.job) == BEFORE


def test_a_state_that_grows_too_large_piece_by_piece_is_refused(ctx: Context) -> None:
    piece = "x" * 1_500_000
    ctx.checkpoint(state={"a": piece})
    ctx.checkpoint(state={"b": piece})

    with pytest.raises(NotStorable, match="larger than"):
        ctx.checkpoint(state={"c": piece})
    with pytest.raises(InvalidOption, match="larger than"):
        compare_and_swap(ctx.job.pk, {}, {"c": piece})

    assert set(ctx.state) == {"a", "b"}


@pytest.mark.parametrize(
    "call",
    [
        lambda ctx: ctx.progress("x"),
        lambda ctx: ctx.progress(True),
        lambda ctx: ctx.progress(1.5),
        lambda ctx: ctx.progress(10**30),
        lambda ctx: ctx.progress(1, -1),
        lambda ctx: ctx.progress(1, 2, 5),
        lambda ctx: ctx.note(5),
        lambda ctx: ctx.note("x", d=_nested(300)),
        lambda ctx: ctx.note("x", d=float("nan")),
        lambda ctx: ctx.once("x", lambda: float("nan")),
        lambda ctx: ctx.once("x", lambda: _nested(600)),
        lambda ctx: ctx.propose(b"k", {}),
        lambda ctx: ctx.propose("k", {}, title=5),
        lambda ctx: ctx.propose("k", {}, expires_in=timedelta.max),
        lambda ctx: ctx.propose("k", {}, expires_in=5),
    ],
)
def test_a_call_that_can_never_work_fails_its_job_and_is_not_tried_again(
    ctx: Context, call: Callable[[Context], Any]
) -> None:
    with pytest.raises(NotStorable) as refused:
        call(ctx)

    outcome = failures.outcome_of(refused.value)
    assert isinstance(outcome, Fail)
    assert outcome.code == "not_storable"


def test_a_receipt_that_cannot_be_stored_leaves_the_outcome_open(ctx: Context) -> None:
    ctx.propose("k", {}, review=False)

    with pytest.raises(OutcomeUnknown, match=r"receipt|deeper"):
        ctx.perform("k", lambda action: _nested(300))


def test_a_checkpoint_after_the_lease_was_taken_over_leaves_the_row_as_it_was(
    ctx: Context,
) -> None:
    ctx.checkpoint(**BEFORE)
    ctx.progress(1, 2, "half")
    taken_over(ctx.job)
    before = progress_row(ctx.job), story(ctx.job)

    for name, value in FIELDS.items():
        with pytest.raises(LostLeaseError):
            ctx.checkpoint(**{name: value})
    with pytest.raises(LostLeaseError):
        ctx.progress(2, 2, "done")

    assert (progress_row(ctx.job), story(ctx.job)) == before


def test_a_run_without_its_lease_makes_not_even_an_empty_row(ctx: Context) -> None:
    taken_over(ctx.job)

    with pytest.raises(LostLeaseError):
        ctx.checkpoint(state={"a": 1})
    with pytest.raises(LostLeaseError):
        ctx.progress(1)

    assert progress_of(ctx.job.pk) is None


def test_a_run_whose_job_is_deleted_hears_that_its_lease_is_gone(ctx: Context) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM buildqueue_buildjob WHERE id = %s", [ctx.job.pk])

    with pytest.raises(LostLeaseError):
        ctx.checkpoint(state={"a": 1})
    with pytest.raises(LostLeaseError):
        ctx.progress(1)


def test_a_cancelled_jobs_run_stores_nothing_more(ctx: Context) -> None:
    ctx.checkpoint(**BEFORE)
    verbs.cancel(ctx.job.pk, actor=ANNA)

    with pytest.raises(LostLeaseError):
        ctx.checkpoint(**FIELDS)

    assert _remembered(ctx.job) == BEFORE
