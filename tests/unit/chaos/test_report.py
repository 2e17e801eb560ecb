"""Does the report tell how soon a fault was over, and whether there were enough?"""

from __future__ import annotations

from dataclasses import replace

from tests.chaos import report
from tests.chaos.history import Fault, Hit

from .test_invariants import FIRST, PARENT, SECOND, at, right


def _fault(name: str, second: float, *leases: object) -> Fault:
    hits = tuple(Hit(job=PARENT, lease=lease) for lease in leases)  # type: ignore[arg-type]
    return Fault(name=name, at=at(second), target="worker 1", hits=hits)


def test_a_run_that_was_lost_is_over_it_when_its_job_is_claimed_again() -> None:
    history = replace(right(), faults=(_fault("slot_killed", 3, FIRST),))
    assert report.recoveries(history) == {"slot_killed": [7.0]}


def test_a_run_that_went_on_is_over_it_when_it_ends() -> None:
    history = replace(right(), faults=(_fault("server_restarted", 12, SECOND),))
    assert report.recoveries(history) == {"server_restarted": [8.0]}


def test_a_run_that_was_over_before_the_fault_is_not_measured() -> None:
    history = replace(right(), faults=(_fault("slot_killed", 5, FIRST),))
    assert report.recoveries(history) == {"slot_killed": []}


def test_a_class_that_was_struck_too_seldom_is_named() -> None:
    faults = [_fault("slot_killed", second) for second in (1, 2)]
    assert report.few_of(faults, ["slot_killed", "network_cut"], 2) == ["network_cut"]
    assert report.few_of(faults, ["slot_killed"], 3) == ["slot_killed"]


def test_percentiles_are_values_that_were_seen() -> None:
    seen = [float(n) for n in range(1, 101)]
    shares = (0.5, 0.9, 0.99, 1.0)
    assert [report.percentile(seen, share) for share in shares] == [50, 90, 99, 100]
    assert report.percentile([4.0], 0.5) == 4.0


def test_one_wrong_row_makes_the_report_fail() -> None:
    assert report.checks(right())[1]
    lines, well = report.checks(replace(right(), processes=("17 python",)))
    assert not well
    assert any(line.startswith("FAIL (1)") for line in lines)
