"""What does a run print? What was struck and how soon it was over, what ran, what holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from buildqueue.states import FINAL, TRANSITIONS

from .history import Event, Fault, History, Hit, by_job
from .invariants import CHECKS, spans_of

SHOWN = 8  # faults of one check
RUNS_AGAIN = {"rescue", "hand_back"}


def recoveries(history: History) -> dict[str, list[float]]:
    """Return for each class of fault the seconds from it until each hit run was over it.

    A run that went on in spite of it: until its own end. One that was taken back: until
    the job is claimed again, has ended, or a person did something else with it.
    """
    spans, timelines = spans_of(history), by_job(history.events)
    found: dict[str, list[float]] = {}
    for fault in history.faults:
        seconds = found.setdefault(fault.name, [])
        for hit in fault.hits:
            span = spans.get(hit.lease)
            if span is None or span.end is None or span.end.committed < fault.at:
                continue  # it was over a moment before
            moment = _over_it(span.end, timelines[hit.job])
            if moment is not None:
                seconds.append((moment - fault.at).total_seconds())
    return found


def _over_it(end: Event, timeline: Sequence[Event]) -> datetime | None:
    if end.kind not in RUNS_AGAIN or end.title in FINAL:
        return end.at
    later = (e for e in timeline if e.id > end.id and e.kind in TRANSITIONS)
    following = next(later, None)
    return following and following.at


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which this share of them lies."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def few_of(faults: Sequence[Fault], classes: Sequence[str], least: int) -> list[str]:
    """Return the classes that were struck less often than they should."""
    counts = Counter(fault.name for fault in faults)
    return [name for name in classes if counts[name] < least]


def faults_table(history: History, classes: Sequence[str]) -> list[str]:
    """Return the lines that tell what was struck."""
    lines = [
        f"{'fault':<20}{'struck':>8}{'runs hit':>10}{'over it':>9}"
        f"{'p50 s':>8}{'p90 s':>8}{'p99 s':>8}{'worst':>8}"
    ]
    measured = recoveries(history)
    for name in classes:
        struck = [fault for fault in history.faults if fault.name == name]
        hits = sum(len(fault.hits) for fault in struck)
        seconds = measured.get(name, [])
        shares = (0.5, 0.9, 0.99, 1.0) if seconds else ()
        told = "".join(f"{percentile(seconds, share):>8.2f}" for share in shares)
        lines.append(f"{name:<20}{len(struck):>8}{hits:>10}{len(seconds):>9}{told}")
    return lines


def jobs_table(history: History) -> list[str]:
    """Return the lines that tell which jobs ran and how they ended."""
    counts = Counter((job.kind, job.status) for job in history.jobs.values())
    statuses = sorted({status for _, status in counts})
    lines = [f"{'jobs':<20}" + "".join(f"{status:>17}" for status in statuses)]
    for kind in sorted({kind for kind, _ in counts}):
        row = "".join(f"{counts[kind, status]:>17}" for status in statuses)
        lines.append(f"{kind:<20}{row}")
    codes = Counter(job.error_code for job in history.jobs.values() if job.error_code)
    lines.append(f"errors: {_listed(codes)}")
    outcomes = Counter(run.outcome for run in history.runs)
    lines.append(f"runs: {len(history.runs)} ({_listed(outcomes)})")
    actions = Counter(action.status for action in history.actions)
    lines.append(f"outside effects: {_listed(actions)}")
    for action in history.actions:
        if action.status == "outcome_unknown":
            times = history.outside.get(str(action.id), 0)
            lines.append(f"  outcome unknown: {action.id}, it happened {times} times")
    return lines


def checks(history: History) -> tuple[list[str], bool]:
    """Return the lines that tell what holds, and whether all of it does."""
    lines, well = [], True
    for name, check in CHECKS.items():
        verdict = check(history)
        well = well and verdict.holds
        told = "PASS" if verdict.holds else f"FAIL ({len(verdict.faults)})"
        lines.append(f"{told:<12}{name}: {verdict.looked_at} looked at")
        lines += [f"            - {fault}" for fault in verdict.faults[:SHOWN]]
    return lines, well


def told(name: str, counts: Counter[str]) -> str:
    """Return one line of counts."""
    return f"{name}: {_listed(counts)}"


def struck(fault: Fault, since: datetime) -> str:
    """Return the line that is printed when a fault is struck."""
    seconds = (fault.at - since).total_seconds()
    hit = ", ".join(_short(hit) for hit in fault.hits) or "no run"
    return f"{seconds:7.1f} s  {fault.name:<18} {fault.target}: {hit}"


def _short(hit: Hit) -> str:
    return str(hit.job)[:8]


def _listed(counts: Counter[str] | Counter[str | None]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.most_common()) or "none"
