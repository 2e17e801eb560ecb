"""What must hold after everything died? Each check can fail, and tests show it.

    CHECKS      name -> function from a history to a verdict

A verdict says how many things were looked at: one that has looked at nothing proves
nothing. Pure: made-up histories are checked like real ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

from buildqueue.states import FINAL, TRANSITIONS, JobStatus

from .history import Event, History, Job, Run, Write, by_job

# An event of a run is told without a lock: its statement may have looked a moment before
# the lease was taken. What a stale run tells comes seconds later.
A_MOMENT = timedelta(milliseconds=100)
AFTER_THE_END = {"run_ended"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check has found."""

    looked_at: int
    faults: list[str]

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class Span:
    """How long a lease was in force: from its claim to whatever took it away."""

    job: UUID
    claim: Event
    end: Event | None


def spans_of(history: History) -> dict[UUID, Span]:
    """Return the span of every lease, by the lease."""
    claims, ends = {}, {}
    for event in history.events:
        if event.run is None or event.kind not in TRANSITIONS:
            continue
        (claims if event.kind == "claim" else ends).setdefault(event.run, event)
    return {
        lease: Span(claim.job, claim, ends.get(lease))
        for lease, claim in claims.items()
    }


# -- jobs ------------------------------------------------------------------------------


def every_job_is_settled(history: History) -> Verdict:
    """Tell whether each job has ended, or waits for a person or a time."""
    faults = [
        f"{job.kind} {job.id} is {job.status}"
        for job in history.jobs.values()
        if job.status not in FINAL and not _waits_rightly(job, history)
    ]
    return Verdict(len(history.jobs), faults)


def _waits_rightly(job: Job, history: History) -> bool:
    match job.status:
        case JobStatus.SCHEDULED:
            return job.due_at is not None and job.due_at > history.now
        case JobStatus.PAUSED:
            return True  # by a person, as its timeline says
        case JobStatus.WAITING_INPUT:
            return job.left_open and job.waits_for == "input"
        case JobStatus.WAITING_APPROVAL:
            return any(
                a.job == job.id and a.status == "awaiting_review"
                for a in history.actions
            )
        case JobStatus.WAITING_CHILDREN:
            children = [j for j in history.jobs.values() if j.parent == job.id]
            still = [child for child in children if child.status not in FINAL]
            return bool(still) and all(_waits_rightly(c, history) for c in still)
    return False


def no_job_is_lost(history: History) -> Verdict:
    """Tell whether each job is there whose enqueue has returned."""
    faults = [
        f"job {pk} is gone" for pk in history.acknowledged if pk not in history.jobs
    ]
    return Verdict(len(history.acknowledged), faults)


def parents_end_after_their_children(history: History) -> Verdict:
    """Tell whether no parent was done before its children, and none left them behind."""
    looked, faults = 0, []
    for child in history.jobs.values():
        parent = history.jobs.get(child.parent) if child.parent else None
        if parent is None or parent.status not in FINAL:
            continue
        looked += 1
        if child.completed_at is None:
            faults.append(f"{child.id} is {child.status}, its parent {parent.status}")
        elif parent.status == JobStatus.DONE and _later(child, parent):
            faults.append(f"{parent.id} was done before its child {child.id}")
    return Verdict(looked, faults)


def _later(child: Job, parent: Job) -> bool:
    ended = (child.completed_at, parent.completed_at)
    return ended[0] is not None and ended[1] is not None and ended[0] > ended[1]


def tries_stay_within_the_allowance(history: History) -> Verdict:
    """Tell whether done jobs had tries left, and each count has its events."""
    kinds = {
        pk: Counter(e.kind for e in es) for pk, es in by_job(history.events).items()
    }
    faults = []
    for job in history.jobs.values():
        told = kinds.get(job.id, Counter())
        if (
            job.status == JobStatus.DONE
            and job.failures + job.crashes >= job.max_attempts
        ):
            faults.append(
                f"{job.id} is done after {job.failures}+{job.crashes} failures"
            )
        failed = told["fail"] + told["retry_later"]
        # A run that ended with an effect under way counted as whatever it reported.
        if not failed <= job.failures <= failed + told["outcome_unknown"]:
            faults.append(f"{job.id} counts {job.failures} failures, it tells {failed}")
        least = told["rescue"]
        if not least <= job.crashes <= least + told["outcome_unknown"]:
            faults.append(f"{job.id} counts {job.crashes} crashes, it tells {least}")
    return Verdict(len(history.jobs), faults)


# -- effects ---------------------------------------------------------------------------


def no_effect_happens_twice(history: History) -> Verdict:
    """Tell whether each effect in the database is there once at most."""
    counts = Counter((row.job, row.name) for row in history.effects)
    faults = [f"{n} times: {name} of {pk}" for (pk, name), n in counts.items() if n > 1]
    return Verdict(len(counts), faults)


def done_jobs_have_all_their_effects(history: History) -> Verdict:
    """Tell whether each done job has left exactly the effects that it should."""
    left = {
        pk: {row.name for row in rows} for pk, rows in by_job(history.effects).items()
    }
    looked, faults = 0, []
    for job in history.jobs.values():
        found = left.get(job.id, set())
        if job.status == JobStatus.DONE:
            looked += len(job.expected)
            if found != job.expected:
                faults.append(
                    f"{job.id} left {sorted(found)}, not {sorted(job.expected)}"
                )
        elif not found <= job.expected:
            faults.append(f"{job.id} left {sorted(found)}, more than it should")
    strays = set(left) - set(history.jobs)
    return Verdict(looked, faults + [f"effects of no job: {pk}" for pk in strays])


def outside_effects_happen_once(history: History) -> Verdict:
    """Tell whether the outside world agrees with what became of each action."""
    known, faults = {str(action.id): action for action in history.actions}, []
    for action in history.actions:
        times = history.outside.get(str(action.id), 0)
        may = {"succeeded": (1,), "outcome_unknown": (0, 1)}.get(action.status, (0,))
        if times not in may:
            faults.append(f"{action.id} is {action.status} and happened {times} times")
        if action.status == "executing":
            faults.append(f"{action.id} is still under way")
    faults += [
        f"{times} times for no known action: {pk}"
        for pk, times in history.outside.items()
        if pk not in known and times
    ]
    return Verdict(len(known), faults)


def unknown_outcomes_are_never_repeated(history: History) -> Verdict:
    """Tell whether no action goes on, and no job runs, after an unknown outcome."""
    looked, faults = 0, []
    for pk, events in by_job(history.events).items():
        unknown: set[str] = set()
        for event in events:
            if event.kind == "action_outcome_unknown":
                looked += 1
                unknown.add(event.action)
            elif event.kind == "action_settled":
                unknown.discard(event.action)
            elif event.kind == "action_executing" and event.action in unknown:
                faults.append(f"{event.action} of {pk} was tried again")
            elif event.kind == "claim" and unknown:
                faults.append(f"{pk} ran again, though nobody had settled {unknown}")
    return Verdict(looked, faults)


# -- leases ----------------------------------------------------------------------------


def nothing_is_written_without_a_lease(history: History) -> Verdict:
    """Tell whether each row was committed while its writer's lease was in force."""
    spans = spans_of(history)
    runs = {run.id: run for run in history.runs}
    faults = [
        f"{row.name} of {row.job}: {why}"
        for row in (*history.effects, *history.checkpoints)
        if (why := _stale(row, spans, runs))
    ]
    return Verdict(len(history.effects) + len(history.checkpoints), faults)


def _stale(row: Write, spans: dict[UUID, Span], runs: dict[UUID, Run]) -> str:
    if row.lease is None:
        return "it names no lease"
    span, run = spans.get(row.lease), runs.get(row.lease)
    if span is None or run is None or row.job != span.job or row.job != run.job:
        return f"lease {row.lease} was never this job's"
    if row.attempt != run.attempt:
        return f"attempt {row.attempt} had another lease"
    if row.committed < span.claim.committed:
        return "it was written before the claim"
    if span.end is not None and row.committed > span.end.committed:
        late = (row.committed - span.end.committed).total_seconds()
        return (
            f"it was written {late:.3f} s after the lease had ended by {span.end.kind}"
        )
    return ""


def runs_are_silent_after_their_end(history: History) -> Verdict:
    """Tell whether no run told anything once its lease was gone, but that it has ended."""
    spans = spans_of(history)
    looked, faults = 0, []
    for event in history.events:
        if event.run is None or event.kind in AFTER_THE_END:
            continue
        looked += 1
        span = spans.get(event.run)
        if span is None:
            faults.append(
                f"{event.kind} of {event.job} by run {event.run}, never claimed"
            )
        elif event.kind in TRANSITIONS:
            if event is not span.claim and event is not span.end:
                faults.append(f"a second end of run {event.run}: {event.kind}")
        elif span.end is not None and event.at > span.end.committed + A_MOMENT:
            faults.append(f"{event.kind} of {event.job} after {span.end.kind}")
    return Verdict(looked, faults)


# -- timeline --------------------------------------------------------------------------


def timelines_follow_the_transitions(history: History) -> Verdict:
    """Tell whether each status follows from the one before, up to the job's own."""
    timelines = by_job(history.events)
    looked, faults = 0, []
    for job in history.jobs.values():
        status: str | None = None
        for event in timelines.get(job.id, []):
            found = TRANSITIONS.get(event.kind)
            if found is None:
                continue
            looked += 1
            fits = status in found.sources if found.sources else status is None
            if not fits or event.title not in found.targets:
                told = f"{event.kind} from {status} to {event.title}"
                faults.append(f"{told}, event {event.id} of {job.id}")
            status = event.title
        if status != job.status:
            faults.append(f"{job.id} is {job.status}, its timeline ends {status}")
    return Verdict(looked, faults)


def every_claim_has_a_run_and_an_end(history: History) -> Verdict:
    """Tell whether claims, runs and attempts are the same, one after the other."""
    claims = Counter(e.job for e in history.events if e.kind == "claim")
    runs, spans = by_job(history.runs), spans_of(history)
    faults = []
    for job in history.jobs.values():
        own = sorted(runs.get(job.id, []), key=lambda run: run.attempt)
        if [run.attempt for run in own] != list(range(1, job.attempt + 1)):
            attempts = [run.attempt for run in own]
            faults.append(
                f"{job.id} has had {job.attempt} attempts, its runs {attempts}"
            )
        if claims[job.id] != job.attempt:
            faults.append(f"{job.id}: {claims[job.id]} claims, {job.attempt} attempts")
        faults += _overlaps(own)
    faults += [
        f"the claim of run {lease} has no end"
        for lease, span in spans.items()
        if span.end is None
    ]
    return Verdict(len(spans), faults)


def _overlaps(runs: list[Run]) -> Iterator[str]:
    for earlier, later in pairwise(runs):
        if earlier.ended_at is None or later.started_at < earlier.ended_at:
            told = f"attempt {later.attempt} of {later.job} began before the end of"
            yield f"{told} attempt {earlier.attempt} of {earlier.job}"


def one_run_at_a_time_under_a_key(history: History) -> Verdict:
    """Tell whether no two runs under one serial key overlap."""
    keys: dict[str, list[Run]] = {}
    for run in sorted(history.runs, key=lambda run: run.started_at):
        if run.serial_key is not None:
            keys.setdefault(run.serial_key, []).append(run)
    faults = [
        f"{key}: {told}" for key, runs in keys.items() for told in _overlaps(runs)
    ]
    return Verdict(sum(map(len, keys.values())), faults)


def no_run_stays_open(history: History) -> Verdict:
    """Tell whether each run has ended."""
    faults = [f"run {r.id} of {r.job}" for r in history.runs if r.ended_at is None]
    return Verdict(len(history.runs), faults)


# -- the database ----------------------------------------------------------------------


def nobody_locks_crosswise(history: History) -> Verdict:
    """Tell whether the server had to end a deadlock: locks have one order."""
    faults = ["\n".join(told) for told in history.facts.get("deadlocks", [])]
    return Verdict(len(history.events), faults)


# -- processes -------------------------------------------------------------------------


def no_process_is_left(history: History) -> Verdict:
    """Tell whether nothing outlives its supervisor."""
    return Verdict(int(history.facts.get("supervisors", 0)), list(history.processes))


def supervisors_end_only_when_told(history: History) -> Verdict:
    """Tell whether no supervisor gave up."""
    return Verdict(int(history.facts.get("supervisors", 0)), list(history.strange_ends))


CHECKS: dict[str, Callable[[History], Verdict]] = {
    check.__name__.replace("_", " "): check
    for check in (
        every_job_is_settled,
        no_job_is_lost,
        parents_end_after_their_children,
        tries_stay_within_the_allowance,
        no_effect_happens_twice,
        done_jobs_have_all_their_effects,
        outside_effects_happen_once,
        unknown_outcomes_are_never_repeated,
        nothing_is_written_without_a_lease,
        runs_are_silent_after_their_end,
        timelines_follow_the_transitions,
        every_claim_has_a_run_and_an_end,
        one_run_at_a_time_under_a_key,
        no_run_stays_open,
        nobody_locks_crosswise,
        no_process_is_left,
        supervisors_end_only_when_told,
    )
}
