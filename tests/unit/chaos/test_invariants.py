"""Can each check of the chaos test fail? On made-up histories, each wrong in one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from buildqueue.states import TRANSITIONS
from tests.chaos import invariants
from tests.chaos.history import Action, Event, History, Job, Run, Write
from tests.chaos.invariants import CHECKS

START = datetime(2030, 1, 1, tzinfo=UTC)
PARENT, CHILD, FIRST, SECOND, THIRD = (uuid4() for _ in range(5))
MAIL = uuid4()

Change = Callable[[History], History]


def at(seconds: float) -> datetime:
    """Return a moment of the made-up run."""
    return START + timedelta(seconds=seconds)


def event(number: int, job: UUID, kind: str, title: str = "", **more: Any) -> Event:
    """Return the event of this number, told and committed at that second."""
    known: dict[str, Any] = {"at": at(number), "committed": at(number)} | more
    return Event(id=number, job=job, kind=kind, title=title, **known)


def right() -> History:
    """Return a history in which all is as it should be.

    A parent is lost once, runs again, has a child, an effect outside, and is done.
    """
    child = Job(
        id=CHILD,
        kind="chaos_steps",
        status="done",
        expected=frozenset({"step 0"}),
        parent=PARENT,
        completed_at=at(9),
    )
    parent = Job(
        id=PARENT,
        kind="chaos_family",
        status="done",
        expected=frozenset({"gathered"}),
        attempt=2,
        crashes=1,
        completed_at=at(20),
    )
    return History(
        now=at(100),
        jobs={PARENT: parent, CHILD: child},
        acknowledged=(PARENT,),
        runs=(
            keyed(
                Run(id=FIRST, job=PARENT, attempt=1, started_at=at(2), ended_at=at(4))
            ),
            Run(id=SECOND, job=PARENT, attempt=2, started_at=at(10), ended_at=at(20)),
            keyed(
                Run(id=THIRD, job=CHILD, attempt=1, started_at=at(6), ended_at=at(9))
            ),
        ),
        events=(
            event(1, PARENT, "enqueue", "pending"),
            event(2, PARENT, "claim", "in_progress", run=FIRST),
            event(3, PARENT, "step_started", "gathered", run=FIRST),
            event(4, PARENT, "rescue", "pending", run=FIRST),
            event(5, CHILD, "enqueue", "pending"),
            event(6, CHILD, "claim", "in_progress", run=THIRD),
            event(9, CHILD, "finish", "done", run=THIRD),
            event(10, PARENT, "claim", "in_progress", run=SECOND),
            event(12, PARENT, "action_executing", run=SECOND, action=str(MAIL)),
            event(13, PARENT, "action_succeeded", run=SECOND, action=str(MAIL)),
            event(20, PARENT, "finish", "done", run=SECOND),
        ),
        effects=(
            written(CHILD, "step 0", THIRD, seconds=8),
            written(PARENT, "gathered", SECOND, attempt=2, seconds=15),
        ),
        checkpoints=(
            written(CHILD, "step 0", THIRD, seconds=8),
            written(PARENT, "gathered", SECOND, attempt=2, seconds=15),
        ),
        actions=(Action(id=MAIL, job=PARENT, status="succeeded"),),
        outside={str(MAIL): 1},
        facts={"supervisors": 4},
    )


def keyed(run: Run) -> Run:
    """Return the run under a serial key."""
    return replace(run, serial_key="one")


def written(
    job: UUID, name: str, lease: UUID | None, *, seconds: float, attempt: int = 1
) -> Write:
    """Return a row that was committed at that second."""
    return Write(
        job=job, name=name, lease=lease, attempt=attempt, committed=at(seconds)
    )


def job(pk: UUID, **values: Any) -> Change:
    """Have a job be otherwise."""
    return lambda h: replace(h, jobs={**h.jobs, pk: replace(h.jobs[pk], **values)})


def more(name: str, *rows: Any) -> Change:
    """Have more rows of a sort; events go to their place."""

    def change(history: History) -> History:
        found = [*getattr(history, name), *rows]
        if name == "events":
            found.sort(key=lambda each: each.id)
        return replace(history, **{name: tuple(found)})

    return change


def without(name: str, **values: Any) -> Change:
    """Have the rows of these values be gone."""

    def stays(row: Any) -> bool:
        return any(getattr(row, key) != value for key, value in values.items())

    return lambda h: replace(h, **{name: tuple(filter(stays, getattr(h, name)))})


def both(*changes: Change) -> Change:
    """Have one after the other."""

    def change(history: History) -> History:
        for each in changes:
            history = each(history)
        return history

    return change


def outside(**counts: int) -> Change:
    """Have the outside world count otherwise."""
    return lambda h: replace(h, outside=counts)


def action(status: str) -> Change:
    """Have the action be otherwise."""
    return lambda h: replace(h, actions=(replace(h.actions[0], status=status),))


UNKNOWN = event(11, PARENT, "action_outcome_unknown", action=str(MAIL))
WRONG: dict[str, list[Change]] = {
    "every job is settled": [
        job(PARENT, status="in_progress", completed_at=None),
        job(PARENT, status="pending", completed_at=None),
        job(PARENT, status="scheduled", due_at=at(99)),
        job(PARENT, status="waiting_input", waits_for="input"),
        job(PARENT, status="waiting_input", left_open=True),
        job(PARENT, status="waiting_approval"),
        job(PARENT, status="waiting_children"),
    ],
    "no job is lost": [lambda h: replace(h, acknowledged=(PARENT, uuid4()))],
    "parents end after their children": [
        job(CHILD, completed_at=at(21)),
        job(CHILD, status="waiting_input", completed_at=None),
        both(job(PARENT, status="failed"), job(CHILD, completed_at=None)),
    ],
    "tries stay within the allowance": [
        job(PARENT, max_attempts=1),
        job(PARENT, failures=1),
        job(PARENT, crashes=0),
        job(PARENT, crashes=2),
    ],
    "no effect happens twice": [
        more("effects", written(CHILD, "step 0", THIRD, seconds=8)),
        more("effects", written(PARENT, "gathered", FIRST, seconds=3)),
    ],
    "done jobs have all their effects": [
        without("effects", job=CHILD),
        job(CHILD, expected=frozenset({"step 0", "step 1"})),
        job(CHILD, expected=frozenset()),
        both(job(CHILD, status="failed", expected=frozenset({"other"}))),
        more("effects", written(uuid4(), "step 0", THIRD, seconds=8)),
    ],
    "outside effects happen once": [
        outside(),
        outside(**{str(MAIL): 2}),
        outside(**{str(MAIL): 1, str(uuid4()): 1}),
        action("failed"),
        action("denied"),
        action("executing"),
        both(action("outcome_unknown"), outside(**{str(MAIL): 2})),
    ],
    "unknown outcomes are never repeated": [
        more("events", UNKNOWN),
        more("events", replace(UNKNOWN, id=3, at=at(3))),
    ],
    "nothing is written without a lease": [
        both(
            without("effects", job=PARENT),
            more("effects", written(PARENT, "gathered", FIRST, seconds=4.001)),
        ),
        more("checkpoints", written(PARENT, "late", SECOND, attempt=2, seconds=20.001)),
        more("checkpoints", written(PARENT, "early", SECOND, attempt=2, seconds=9.9)),
        more("checkpoints", written(PARENT, "nobody", None, seconds=15)),
        more("checkpoints", written(PARENT, "stranger", uuid4(), seconds=15)),
        more("checkpoints", written(PARENT, "cousin", THIRD, seconds=8)),
        more("checkpoints", written(PARENT, "attempt", SECOND, seconds=15)),
    ],
    "runs are silent after their end": [
        more("events", event(7, PARENT, "step_finished", "gathered", run=FIRST)),
        more("events", event(7, PARENT, "finish", "done", run=FIRST)),
        more("events", event(7, PARENT, "note", "hello", run=uuid4())),
    ],
    "timelines follow the transitions": [
        more("events", event(7, PARENT, "finish", "done", run=FIRST)),
        more("events", event(8, PARENT, "enqueue", "pending")),
        without("events", id=4),
        without("events", id=1),
        without("events", id=20),
        job(PARENT, status="failed"),
        more("events", event(21, PARENT, "rescue", "done", run=SECOND)),
    ],
    "every claim has a run and an end": [
        without("runs", id=FIRST),
        without("events", id=2),
        without("events", id=20),
        job(PARENT, attempt=3),
        more(
            "runs",
            Run(id=uuid4(), job=CHILD, attempt=1, started_at=at(7), ended_at=at(8)),
        ),
        lambda h: replace(
            h,
            runs=tuple(
                replace(r, ended_at=at(11)) if r.id == FIRST else r for r in h.runs
            ),
        ),
        lambda h: replace(
            h,
            runs=tuple(
                replace(r, ended_at=None) if r.id == FIRST else r for r in h.runs
            ),
        ),
    ],
    "one run at a time under a key": [
        more(
            "runs",
            keyed(
                Run(
                    id=uuid4(), job=uuid4(), attempt=1, started_at=at(8), ended_at=at(9)
                )
            ),
        ),
        lambda h: replace(
            h, runs=tuple(keyed(replace(r, ended_at=None)) for r in h.runs)
        ),
    ],
    "no run stays open": [
        lambda h: replace(h, runs=(replace(h.runs[0], ended_at=None), *h.runs[1:])),
    ],
    "nobody locks crosswise": [
        lambda h: replace(h, facts={**h.facts, "deadlocks": [["deadlock detected"]]}),
    ],
    "no process is left": [lambda h: replace(h, processes=("17 python",))],
    "supervisors end only when told": [lambda h: replace(h, strange_ends=("1 ended",))],
}
ALLOWED: list[Change] = [
    job(PARENT, status="paused"),
    job(PARENT, status="scheduled", due_at=at(101)),
    job(PARENT, status="waiting_input", waits_for="input", left_open=True),
    both(job(PARENT, status="waiting_approval"), action("awaiting_review")),
    both(job(PARENT, status="waiting_children"), job(CHILD, status="paused")),
]


def test_a_history_in_which_all_is_right_passes_every_check() -> None:
    for name, check in CHECKS.items():
        verdict = check(right())
        assert verdict.holds, (name, verdict.faults)
        unknown = name == "unknown outcomes are never repeated"  # there is none here
        assert verdict.looked_at > 0 or unknown, name


def test_every_check_has_a_history_that_it_must_find_wrong() -> None:
    assert set(WRONG) == set(CHECKS)


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, n) for name, found in WRONG.items() for n in range(len(found))],
)
def test_a_history_that_is_wrong_in_one_way_is_found(name: str, number: int) -> None:
    assert not CHECKS[name](WRONG[name][number](right())).holds


@pytest.mark.parametrize("number", range(len(ALLOWED)))
def test_a_job_may_wait_for_a_person_or_a_time(number: int) -> None:
    assert invariants.every_job_is_settled(ALLOWED[number](right())).holds


def test_what_a_run_tells_in_the_moment_its_lease_is_taken_is_no_fault() -> None:
    told = event(5, PARENT, "step_started", run=FIRST, at=at(4.05))
    assert invariants.runs_are_silent_after_their_end(
        more("events", told)(right())
    ).holds


def test_the_end_of_a_revoked_process_may_be_told_at_any_time() -> None:
    told = event(19, PARENT, "run_ended", "interrupted", run=FIRST)
    assert invariants.runs_are_silent_after_their_end(
        more("events", told)(right())
    ).holds


def test_an_unknown_outcome_that_a_person_has_settled_may_be_followed_by_a_run() -> (
    None
):
    unknown = replace(UNKNOWN, id=3, at=at(3))
    settled = event(7, PARENT, "action_settled", action=str(MAIL))
    found = more("events", unknown, settled)(right())
    assert invariants.unknown_outcomes_are_never_repeated(found).holds


def test_the_kinds_of_transitions_are_those_of_the_engine() -> None:
    assert {e.kind for e in right().events} & set(TRANSITIONS) >= {"claim", "finish"}
