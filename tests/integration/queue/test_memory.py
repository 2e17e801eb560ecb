"""Does a job remember what was told it, and nothing that was told too late?"""

from __future__ import annotations

import itertools
import uuid
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
    Refused,
)
from buildqueue.models import BuildJob, JobProgress
from buildqueue.queue import failures, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor, Fail
from buildqueue.queue.records import compare_and_swap, progress_of, state_of
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.support.attempts import elsewhere, next_attempt, run_of, taken_over
from tests.support.jobs import fresh, story
from tests.support.races import race

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


def _row(job: BuildJob) -> dict[str, Any]:
    return JobProgress.objects.filter(pk=job.pk).values().get()


def _remembered(job: BuildJob) -> dict[str, Any]:
    return {name: value for name, value in _row(job).items() if name in FIELDS}


# -- compare and swap ----------------------------------------------------------------


def test_fifty_writers_that_look_again_lose_no_addition(committed: None) -> None:
    job = make_job()
    compare_and_swap(job.pk, {}, {"count": 0, "name": "kept"})

    def add_one(number: int) -> int:
        for tries in itertools.count(1):
            seen = state_of(job.pk)["count"]
            patch = {"count": seen + 1, "by": {str(number): tries}}
            if compare_and_swap(job.pk, {"count": seen}, patch) is not None:
                return tries
        raise AssertionError("unreachable")

    tries = race(50, add_one)

    state = state_of(job.pk)
    assert (state["count"], state["name"]) == (50, "kept")
    assert state["by"] == {str(number): tried for number, tried in enumerate(tries)}


def test_a_stale_expectation_changes_nothing(committed: None) -> None:
    job = make_job()
    compare_and_swap(job.pk, {}, {"count": 1})
    before = _row(job)

    assert compare_and_swap(job.pk, {"count": 0}, {"count": 9, "more": 1}) is None

    assert _row(job) == before


@pytest.mark.parametrize(
    ("state", "expected", "fits"),
    [
        ({}, {"lease": None}, True),  # a key that is not there fits null
        ({"lease": None}, {"lease": None}, True),
        ({"lease": "a"}, {"lease": None}, False),
        (
            {"files": ["a"]},
            {"files": []},
            False,
        ),  # an empty list is a list, not a joker
        ({"files": []}, {"files": []}, True),
        ({"files": ["a", "b"]}, {"files": ["a"]}, False),  # more is not the same
        ({"files": ["b", "a"]}, {"files": ["a", "b"]}, False),
        ({"files": ["a", "b"]}, {"files": ["a", "b"]}, True),
        ({"mail": {"to": "a", "sent": 1}}, {"mail": {"sent": 1}}, True),
        ({"mail": {"to": "a", "sent": 1}}, {"mail": {"sent": True}}, False),
        ({"mail": {"to": "a"}}, {"mail": {"sent": None}}, True),
        ({"anything": 1}, {}, True),
    ],
)
def test_what_fits_an_expectation(
    committed: None, state: dict[str, Any], expected: dict[str, Any], fits: bool
) -> None:
    job = make_job()
    compare_and_swap(job.pk, {}, state)

    swapped = compare_and_swap(job.pk, expected, {"swapped": True})

    assert swapped == ({**state, "swapped": True} if fits else None)
    assert state_of(job.pk) == ({**state, "swapped": True} if fits else state)


def test_two_writers_of_other_keys_keep_each_others(committed: None) -> None:
    job = make_job()
    patches = [{"a": 1, "deep": {"x": {"a": 1}}}, {"b": 2, "deep": {"x": {"b": 2}}}]

    race(2, lambda number: compare_and_swap(job.pk, {}, patches[number]))

    assert state_of(job.pk) == {"a": 1, "b": 2, "deep": {"x": {"a": 1, "b": 2}}}


def test_a_run_and_a_stranger_keep_each_others_keys(ctx: Context) -> None:
    ctx.checkpoint(state={"mail": {"found": True}})
    compare_and_swap(ctx.job.pk, {}, {"mail": {"read": True}})
    ctx.checkpoint(state={"mail": {"sent": True}})

    assert ctx.state == {"mail": {"found": True, "read": True, "sent": True}}


def test_only_the_owners_job_is_found(committed: None) -> None:
    job = make_job(owner_id="anna")

    with pytest.raises(Refused) as refused:
        compare_and_swap(job.pk, {}, {"mine": True}, owner_id="bert")
    with pytest.raises(Refused) as unknown:
        compare_and_swap(uuid.uuid4(), {}, {"mine": True})

    assert (refused.value.code, unknown.value.code) == ("not_found", "not_found")
    assert progress_of(job.pk) is None
    assert compare_and_swap(job.pk, {}, {"mine": True}, owner_id="anna")


def test_texts_that_postgresql_cannot_keep_are_made_fit(committed: None) -> None:
    job = make_job()

    state = compare_and_swap(job.pk, {}, {"nul \x00": "half \ud800"})

    assert state == state_of(job.pk) == {"nul ␀": "half ?"}


# -- checkpoints ---------------------------------------------------------------------


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


@pytest.mark.parametrize("name", ["nope", None, 5, object()])
def test_a_state_of_no_job_at_all_is_not_found(name: Any, committed: None) -> None:
    with pytest.raises(Refused) as refused:
        compare_and_swap(name, {}, {})

    assert refused.value.code == "not_found"


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
    before = _row(ctx.job), story(ctx.job)

    for name, value in FIELDS.items():
        with pytest.raises(LostLeaseError):
            ctx.checkpoint(**{name: value})
    with pytest.raises(LostLeaseError):
        ctx.progress(2, 2, "done")

    assert (_row(ctx.job), story(ctx.job)) == before


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


# -- progress ------------------------------------------------------------------------


def test_progress_is_seen_by_others_while_a_step_is_open(ctx: Context) -> None:
    def seen() -> tuple[int | None, int | None, str]:
        row = JobProgress.objects.get(pk=ctx.job.pk)
        return row.done, row.total, row.message

    with ctx.step("copy"):
        ctx.progress(3, 10, "three")
        during = elsewhere(seen)
        ctx.progress(4)

    assert during == (3, 10, "three")
    assert seen() == (4, None, "")


def test_progress_waits_for_no_checkpoint_of_the_same_step(ctx: Context) -> None:
    ctx.progress(1, 10)

    with ctx.step("copy"):
        ctx.checkpoint(state={"copied": 5})
        ctx.progress(5, 10)  # left out: the row is this step's until it commits
        ctx.checkpoint(state={"copied": 6})
    ctx.progress(6, 10)

    row = _row(ctx.job)
    assert (row["done"], row["state"]) == (6, {"copied": 6})


def test_progress_tells_of_a_lost_lease_also_when_it_is_left_out(ctx: Context) -> None:
    def work() -> None:
        with ctx.step("copy"):
            ctx.checkpoint(state={"copied": 5})
            elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
            with pytest.raises(LostLeaseError):
                ctx.progress(5, 10)

    with pytest.raises(LostLeaseError):
        work()


def test_progress_that_makes_no_sense_is_refused_and_the_run_goes_on(
    ctx: Context,
) -> None:
    ctx.progress(1, 2)

    with pytest.raises(NotStorable, match="from 0 on"):
        ctx.progress(-1)

    ctx.progress(2, 2, "a\x00" + "b" * 1000)
    row = _row(ctx.job)
    assert (row["done"], row["message"]) == (2, "a␀" + "b" * 498)


# -- the lease -----------------------------------------------------------------------


def test_a_handler_that_asks_hears_that_its_job_was_cancelled(ctx: Context) -> None:
    assert not ctx.cancelled
    ctx._looked = float("-inf")  # the second is over
    verbs.cancel(ctx.job.pk, actor=ANNA)

    assert ctx.cancelled
    assert ctx.cancelled
    with pytest.raises(LostLeaseError):
        ctx.heartbeat()


def test_a_heartbeat_looks_at_the_lease_once_a_second_at_most(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1000.0
    monkeypatch.setattr("buildqueue.queue.context.time.monotonic", lambda: moment)
    ctx.heartbeat()
    taken_over(ctx.job)

    ctx.heartbeat()
    moment = 1000.9
    assert not ctx.cancelled
    moment = 1001.0
    assert ctx.cancelled
    with pytest.raises(LostLeaseError):
        ctx.heartbeat()  # gone is gone: nothing is asked any more


def test_the_lease_is_seen_to_be_lost_from_inside_a_step(ctx: Context) -> None:
    def work() -> None:
        with ctx.step("long"):
            ctx.heartbeat()
            elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
            ctx.check_lease()

    with pytest.raises(LostLeaseError):
        work()


def test_answers_are_what_people_gave(ctx: Context) -> None:
    assert ctx.answers == {}
    JobProgress.objects.create(job=ctx.job, answers={"color": "blue"})

    assert ctx.answers == {"color": "blue"}
    assert fresh(ctx.job).status == JobStatus.IN_PROGRESS
