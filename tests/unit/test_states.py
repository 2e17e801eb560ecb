"""Which change may follow which? Written down here a second time, on purpose."""

from __future__ import annotations

import pytest

from buildqueue import states
from buildqueue.states import FINAL, OPEN, TRANSITIONS, WAITING, JobStatus

ALLOWED: dict[str, dict[str, set[str]]] = {
    # transition -> {status: the statuses it may lead to}
    "promote": {"scheduled": {"pending"}},
    "claim": {"pending": {"in_progress"}},
    "finish": {"in_progress": {"done"}},
    "fail": {"in_progress": {"failed"}},
    "result_missing": {"done": {"failed"}},
    "withdraw": {"in_progress": {"cancelled"}},
    "outcome_unknown": {"in_progress": {"failed"}},
    "child_failed": {"waiting_children": {"failed"}},
    "reschedule": {
        "pending": {"pending", "scheduled"},
        "scheduled": {"pending", "scheduled"},
    },
    "retry_later": {"in_progress": {"scheduled"}},
    "snooze": {"in_progress": {"scheduled"}},
    "hand_back": {"in_progress": {"pending"}},
    "wait": {
        "in_progress": {"waiting_input", "waiting_approval", "waiting_children"},
    },
    "wake": {
        "waiting_input": {"pending"},
        "waiting_approval": {"pending"},
        "waiting_children": {"pending"},
    },
    "rescue": {"in_progress": {"pending", "failed"}},
    "pause": {
        status: {"paused"}
        for status in (
            "pending",
            "scheduled",
            "in_progress",
            "waiting_input",
            "waiting_approval",
            "waiting_children",
        )
    },
    "resume": {
        "paused": {
            "pending",
            "scheduled",
            "waiting_input",
            "waiting_approval",
            "waiting_children",
        }
    },
    "cancel": {
        status: {"cancelled"}
        for status in (
            "pending",
            "scheduled",
            "in_progress",
            "waiting_input",
            "waiting_approval",
            "waiting_children",
            "paused",
        )
    },
    "release": {"in_progress": {"pending"}},
    "force_fail": {
        status: {"failed"}
        for status in (
            "pending",
            "scheduled",
            "in_progress",
            "waiting_input",
            "waiting_approval",
            "waiting_children",
            "paused",
        )
    },
    "retry": {"failed": {"pending"}, "cancelled": {"pending"}},
    "enqueue": {},
}


def test_every_transition_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(ALLOWED)


@pytest.mark.parametrize("name", sorted(TRANSITIONS))
def test_a_transition_leads_only_where_the_table_says(name: str) -> None:
    transition = TRANSITIONS[name]
    expected = ALLOWED[name]

    assert {str(status) for status in transition.sources} == set(expected)
    for status, targets in expected.items():
        assert {str(target) for target in transition.targets} == targets, status


def test_a_job_is_made_pending_or_scheduled() -> None:
    assert states.ENQUEUE.sources == frozenset()
    assert states.ENQUEUE.targets == {JobStatus.PENDING, JobStatus.SCHEDULED}


def test_every_status_is_open_or_final() -> None:
    assert set(JobStatus) == OPEN | FINAL
    assert set() == OPEN & FINAL
    assert WAITING < OPEN


def test_every_status_can_be_reached_and_every_open_one_left() -> None:
    reached = frozenset().union(*(t.targets for t in TRANSITIONS.values()))
    left = frozenset().union(*(t.sources for t in TRANSITIONS.values()))

    assert reached == set(JobStatus)
    assert left >= OPEN


def test_from_a_final_status_only_a_person_or_a_missing_result_leads_on() -> None:
    leading = {t.name for t in TRANSITIONS.values() if t.sources & FINAL}

    assert leading == {"retry", "result_missing"}


def test_only_a_workers_changes_are_fenced_and_all_of_them_end_a_run() -> None:
    fenced = {t.name for t in TRANSITIONS.values() if t.fenced}

    assert fenced == {
        "finish",
        "fail",
        "retry_later",
        "snooze",
        "hand_back",
        "withdraw",
        "wait",
    }
    assert all(TRANSITIONS[name].sources == {JobStatus.IN_PROGRESS} for name in fenced)


def test_a_person_can_cancel_or_declare_failed_whatever_is_open() -> None:
    assert states.CANCEL.sources == states.FORCE_FAIL.sources == OPEN
