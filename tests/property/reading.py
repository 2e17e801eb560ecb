"""What stands in the tables, and does it all agree?

Each check looks at every job there is. Histories are replayed from the timeline by the
tables of `states.py`, which is what the engine is compared with.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from buildqueue.models import (
    BuildJob,
    Checkpoint,
    JobAction,
    JobEvent,
    JobProgress,
    JobRun,
)
from buildqueue.queue.transitions import families, waits
from buildqueue.states import (
    ACTION_FLOW,
    FINAL,
    TRANSITIONS,
    WAITING,
    ActionStatus,
    EventKind,
    JobStatus,
    RunOutcome,
)
from tests.host.models import Effect

TABLES = (
    "buildqueue_buildjob",
    "buildqueue_jobrun",
    "buildqueue_jobevent",
    "buildqueue_checkpoint",
    "buildqueue_jobprogress",
    "buildqueue_jobaction",
    "host_effect",
)
KEPT = ("buildqueue_checkpoint", "buildqueue_jobaction", "host_effect")
DIGEST = (
    "SELECT coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM {} AS t"
)

_A, _E = ActionStatus, EventKind
REVIEWS = {_A.AWAITING_REVIEW, _A.APPROVED}
LEADS_TO: dict[str, set[ActionStatus]] = {
    _E.ACTION_APPROVED: {_A.APPROVED},
    _E.ACTION_DENIED: {_A.DENIED},
    _E.ACTION_EXPIRED: {_A.EXPIRED},
    _E.ACTION_CANCELLED: {_A.CANCELLED},
    _E.ACTION_EXECUTING: {_A.EXECUTING},
    _E.ACTION_SUCCEEDED: {_A.SUCCEEDED},
    _E.ACTION_FAILED: {_A.FAILED},
    _E.ACTION_OUTCOME_UNKNOWN: {_A.OUTCOME_UNKNOWN},
    _E.ACTION_REOPENED: REVIEWS,
    _E.ACTION_SETTLED: {_A.SUCCEEDED, _A.FAILED},
}


def digest(tables: tuple[str, ...] = TABLES) -> tuple[str, ...]:
    """Return what tells whether anything at all has changed."""
    parts = ", ".join(f"({DIGEST.format(table)})" for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {parts}")
        return tuple(cursor.fetchone())


def clear() -> None:
    """Delete all there is, for the next example."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SET LOCAL buildqueue.retention = 'on'")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for table in reversed(TABLES):
            cursor.execute(f"DELETE FROM {table}")
        cursor.execute("COMMIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """All rows, as one look finds them."""

    jobs: dict[UUID, BuildJob]
    runs: dict[UUID, list[JobRun]]
    events: dict[UUID, list[JobEvent]]
    steps: list[Checkpoint]
    progress: dict[UUID, JobProgress]
    actions: list[JobAction]
    effects: Counter[str]


def look() -> Everything:
    """Read all rows."""
    runs: dict[UUID, list[JobRun]] = defaultdict(list)
    for run in JobRun.objects.order_by("attempt"):
        runs[run.job_id].append(run)
    events: dict[UUID, list[JobEvent]] = defaultdict(list)
    for event in JobEvent.objects.order_by("id"):
        events[event.job_id].append(event)
    return Everything(
        jobs=BuildJob.objects.in_bulk(),
        runs=runs,
        events=events,
        steps=list(Checkpoint.objects.all()),
        progress=JobProgress.objects.in_bulk(),
        actions=list(JobAction.objects.all()),
        effects=Counter(Effect.objects.values_list("label", flat=True)),
    )


def assert_all_agrees() -> None:
    """Assert everything that must be true between any two transactions."""
    all_ = look()
    for job in all_.jobs.values():
        _assert_history_is_legal(job, all_.events[job.pk])
        _assert_runs_agree(job, all_.runs[job.pk], all_.events[job.pk])
        _assert_ended_once(job, all_)
        _assert_wait_is_remembered(job, all_.progress.get(job.pk))
    _assert_steps_and_effects_are_one(all_)
    for action in all_.actions:
        _assert_action_followed_the_flow(action, all_)


def assert_repaired() -> None:
    """Assert what duties make true."""
    assert waits.over(100) == [], "a wait is over, and its job waits"
    assert families.open_children_of_ended(100) == []
    leases = BuildJob.objects.filter(lease_id__isnull=False).values("lease_id")
    stray = JobAction.objects.filter(status=_A.EXECUTING).exclude(lease_id__in=leases)
    assert not stray.exists(), "an effect is under way in no run"


def _assert_history_is_legal(job: BuildJob, events: list[JobEvent]) -> None:
    status = ""
    for event in events:
        if (change := TRANSITIONS.get(event.kind)) is None:
            continue
        first = event is events[0]
        legal = not change.sources if first else status in change.sources
        assert legal, f"{event.kind} of a job that was {status or 'not there'}"
        assert event.title in change.targets, f"{event.kind} led to {event.title}"
        status = event.title
    assert status == job.status, f"the timeline ends {status}, the job is {job.status}"


def _assert_runs_agree(
    job: BuildJob, runs: list[JobRun], events: list[JobEvent]
) -> None:
    claims = [event.run for event in events if event.kind == "claim"]
    assert [run.pk for run in runs] == claims
    assert [run.attempt for run in runs] == list(range(1, job.attempt + 1))
    open_ones = [run for run in runs if run.ended_at is None]
    running = job.status == JobStatus.IN_PROGRESS
    assert running == (job.lease_id is not None)
    if running:
        assert [run.pk for run in open_ones] == [job.lease_id]
    for run in open_ones:
        assert running or run.expires_at is not None, "an open run that nobody ends"
    ended = Counter(run.outcome for run in runs)
    assert job.failures == ended[RunOutcome.FAILED]
    assert job.crashes == ended[RunOutcome.LOST] + ended[RunOutcome.CRASHED]
    if job.status in WAITING | {JobStatus.PENDING, JobStatus.SCHEDULED}:
        assert job.failures + job.crashes < job.max_attempts


def _assert_ended_once(job: BuildJob, all_: Everything) -> None:
    ends = [
        event
        for event in all_.events[job.pk]
        if event.kind in TRANSITIONS and event.title in FINAL
    ]
    hooked, told = all_.effects[f"end:{job.pk}"], all_.events[job.pk]
    assert hooked == len(ends), [(event.kind, event.detail) for event in told]
    if job.status not in FINAL:
        return
    assert job.completed_at is not None
    if job.status != JobStatus.DONE:
        mine = [action for action in all_.actions if action.job_id == job.pk]
        assert not [action for action in mine if action.status in REVIEWS]


def _assert_wait_is_remembered(job: BuildJob, progress: JobProgress | None) -> None:
    waits_for = progress.waits_for if progress else None
    if job.status in WAITING:
        assert waits_for is not None
        assert job.status == f"waiting_{waits_for['for']}"
    elif job.status != JobStatus.PAUSED:
        assert waits_for is None, f"{job.status}, and waits for {waits_for}"


def _assert_steps_and_effects_are_one(all_: Everything) -> None:
    leases = {run.pk: run for runs in all_.runs.values() for run in runs}
    finished = Counter(
        event.title
        for events in all_.events.values()
        for event in events
        if event.kind == EventKind.STEP_FINISHED
    )
    for step in all_.steps:
        assert step.lease_id in leases
        assert leases[step.lease_id].job_id == step.job_id
        assert leases[step.lease_id].attempt == step.attempt
    mine = Counter(
        f"{step.job_id}:{step.step}"
        for step in all_.steps
        if not step.step.startswith("child:")
    )
    effects = Counter({k: n for k, n in all_.effects.items() if not _of_hook(k)})
    assert effects == mine, "an effect without its checkpoint, or the other way round"
    assert sum(finished.values()) == sum(mine.values())
    spawned = {step.result["job"] for step in all_.steps if _is_child(step)}
    children = {str(job.pk) for job in all_.jobs.values() if job.parent_id}
    assert spawned == children, "a child without its checkpoint, or doubled"


def _of_hook(label: str) -> bool:
    return label.startswith("end:")


def _is_child(step: Checkpoint) -> bool:
    return step.step.startswith("child:")


def _assert_action_followed_the_flow(action: JobAction, all_: Everything) -> None:
    possible: set[ActionStatus] = set()
    performed = 0
    for event in all_.events[action.job_id]:
        if event.detail.get("action") != str(action.pk):
            continue
        if event.kind == EventKind.ACTION_PROPOSED:
            assert not possible, "proposed twice"
            possible = set(REVIEWS)
            continue
        targets = LEADS_TO[event.kind]
        possible = {to for to in targets if ACTION_FLOW[to] & possible}
        assert possible, f"{event.kind} does not follow"
        performed += event.kind == EventKind.ACTION_SUCCEEDED
    assert action.status in possible
    assert performed <= 1
    if action.status == _A.EXECUTING:
        assert all_.jobs[action.job_id].lease_id == action.lease_id
