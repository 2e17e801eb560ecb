"""Who loses a lease, who rescues its job, and can two of them both be right?"""

from __future__ import annotations

import uuid
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import claiming, leases, recovery, transitions, verbs
from buildqueue.queue.outcomes import Actor, Cause
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job
from tests.support.races import race
from tests.support.scratch import url_of
from tests.support.turns import holder

from .conftest import AddKind

LEASE = timedelta(minutes=1)
CRASH = Cause(
    outcome=RunOutcome.CRASHED,
    code="signal",
    message="killed by SIGKILL",
    exit_signal=9,
    peak_memory_bytes=4096,
)


def _over(**values: object) -> BuildJob:
    past = timezone.now() - timedelta(seconds=5)
    return make_job(JobStatus.IN_PROGRESS, lease_until=past, **values)


def _fresh(job: BuildJob) -> BuildJob:
    return BuildJob.objects.get(pk=job.pk)


# -- renewal -----------------------------------------------------------------------


@pytest.mark.django_db
def test_renewal_extends_the_named_leases_only_and_no_other_of_the_slot() -> None:
    slot = uuid.uuid4()
    mine = make_job(JobStatus.IN_PROGRESS, slot=slot)
    other = make_job(JobStatus.IN_PROGRESS, slot=slot)

    assert mine.lease_id is not None
    renewed = leases.renew([mine.lease_id], timedelta(hours=1))

    assert renewed == {mine.lease_id}
    assert mine.lease_until is not None
    until = _fresh(mine).lease_until
    assert until is not None
    assert until > mine.lease_until
    assert _fresh(other).lease_until == other.lease_until


@pytest.mark.django_db
def test_a_lease_that_is_over_is_not_renewed() -> None:
    job = _over()

    assert job.lease_id is not None
    assert leases.renew([job.lease_id], LEASE) == set()
    assert leases.held([job.lease_id]) == set()


def test_renewal_skips_a_row_that_somebody_holds(committed: None) -> None:
    locked = make_job(JobStatus.IN_PROGRESS)
    free = make_job(JobStatus.IN_PROGRESS)
    both = [job.lease_id for job in (locked, free) if job.lease_id]
    url = url_of(connection.settings_dict["NAME"])

    with psycopg.connect(url) as session:
        session.execute(
            "SELECT 1 FROM buildqueue_buildjob WHERE id = %s FOR UPDATE", [locked.pk]
        )
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
        assert leases.renew(both, LEASE) == {free.lease_id}

    assert leases.renew(both, LEASE) == set(both)


# -- rescue ------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_job_whose_lease_is_over_is_pending_again_with_the_cause_on_its_run() -> None:
    job = _over()
    alive = make_job(JobStatus.IN_PROGRESS)

    assert recovery.rescue_expired() == 1

    after = _fresh(job)
    assert (after.status, after.crashes, after.failures) == (JobStatus.PENDING, 1, 0)
    assert after.picked_at is None
    run = JobRun.objects.get(pk=job.lease_id)
    assert (run.outcome, run.error_code) == (RunOutcome.LOST, "lease_over")
    assert _fresh(alive).status == JobStatus.IN_PROGRESS


@pytest.mark.django_db
def test_the_cause_of_death_stands_on_the_run() -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    assert job.slot is not None
    assert recovery.rescue_slot(job.slot, CRASH, started=job.lease_id) == 1

    run = JobRun.objects.get(pk=job.lease_id)
    assert (run.outcome, run.exit_signal, run.peak_memory_bytes) == (
        RunOutcome.CRASHED,
        9,
        4096,
    )
    event = JobEvent.objects.get(job_id=job.pk)
    assert (event.kind, event.reason) == ("rescue", "killed by SIGKILL")


@pytest.mark.django_db
def test_a_poisoned_job_ends_at_its_allowance_with_every_run_told(
    add_kind: AddKind,
) -> None:
    ended: list[str] = []
    kind = add_kind(on_final=lambda job: ended.append(job.status))
    job = make_job(payload={"kind": kind}, max_attempts=3)

    for _ in range(3):
        [claimed] = claiming.claim(claiming.Scope(), holder())
        recovery.rescue([claimed], CRASH)

    after = _fresh(job)
    assert (after.status, after.crashes, after.attempt) == (JobStatus.FAILED, 3, 3)
    assert after.error_code == "max_attempts_exhausted"
    assert after.error_msg == "max attempts exceeded: killed by SIGKILL"
    assert ended == ["failed"]
    assert claiming.claim(claiming.Scope(), holder()) == []
    outcomes = JobRun.objects.filter(job=job).values_list("outcome", flat=True)
    assert set(outcomes) == {RunOutcome.CRASHED}


@pytest.mark.django_db
def test_failures_and_crashes_meet_one_allowance() -> None:
    job = _over(failures=2, max_attempts=3)

    recovery.rescue_expired()

    assert _fresh(job).status == JobStatus.FAILED


@pytest.mark.django_db
def test_a_lease_renewed_between_the_look_and_the_rescue_keeps_its_job() -> None:
    job = _over()
    [seen] = leases.over()
    # As if the renewal had been a moment faster than the look thought.
    BuildJob.objects.filter(pk=job.pk).update(lease_until=timezone.now() + LEASE)

    assert recovery.rescue([seen], recovery.LEASE_OVER) == 0

    after = _fresh(job)
    assert (after.status, after.lease_id) == (JobStatus.IN_PROGRESS, job.lease_id)
    assert not JobEvent.objects.exists()
    assert JobRun.objects.get().ended_at is None


@pytest.mark.django_db
def test_a_job_taken_anew_is_not_rescued_from_its_new_holder() -> None:
    job = _over()
    [seen] = leases.over()
    recovery.rescue([seen], CRASH)
    [again] = claiming.claim(claiming.Scope(), holder())

    assert recovery.rescue([seen], CRASH) == 0
    assert _fresh(job).lease_id == again.lease_id


@pytest.mark.slow
def test_two_that_race_to_rescue_two_hundred_rescue_each_once(committed: None) -> None:
    jobs = [_over() for _ in range(200)]

    rescued = race(2, lambda _: recovery.rescue_expired())
    while (more := recovery.rescue_expired()) > 0:
        rescued.append(more)

    assert sum(rescued) == 200
    assert set(BuildJob.objects.values_list("status", "crashes")) == {("pending", 1)}
    events = JobEvent.objects.filter(kind="rescue").values_list("job_id", flat=True)
    assert sorted(events) == sorted(job.pk for job in jobs)


def test_a_rescue_by_lease_skips_a_row_that_somebody_holds(committed: None) -> None:
    locked, free = _over(), _over()
    url = url_of(connection.settings_dict["NAME"])

    with psycopg.connect(url) as session:
        session.execute(
            "SELECT 1 FROM buildqueue_buildjob WHERE id = %s FOR UPDATE", [locked.pk]
        )
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
        assert recovery.rescue_expired() == 1

    assert _fresh(free).status == JobStatus.PENDING
    assert _fresh(locked).status == JobStatus.IN_PROGRESS
    assert recovery.rescue_expired() == 1


@pytest.mark.django_db
def test_what_a_dead_worker_held_is_rescued_and_what_it_lost_before_is_closed() -> None:
    worker = uuid.uuid4()
    held = make_job(JobStatus.IN_PROGRESS, worker=worker)
    revoked = make_job(JobStatus.IN_PROGRESS, worker=worker)
    other = make_job(JobStatus.IN_PROGRESS)
    verbs.cancel(revoked.pk, actor=Actor(label="anna"))

    assert recovery.rescue_worker(worker) == 1

    assert _fresh(held).status == JobStatus.PENDING
    assert _fresh(revoked).status == JobStatus.CANCELLED
    assert _fresh(other).status == JobStatus.IN_PROGRESS
    run = JobRun.objects.get(pk=revoked.lease_id)
    assert run.outcome == RunOutcome.INTERRUPTED
    assert JobEvent.objects.filter(job_id=revoked.pk, kind="run_ended").count() == 1


@pytest.mark.django_db
def test_rescuing_again_changes_nothing() -> None:
    job = _over()
    slot = job.slot
    assert slot is not None

    assert recovery.rescue_slot(slot, CRASH, started=job.lease_id) == 1
    assert recovery.rescue_slot(slot, CRASH, started=job.lease_id) == 0
    assert recovery.rescue_expired() == 0
    assert _fresh(job).crashes == 1


@pytest.mark.django_db
@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize("status", sorted(JobStatus))
def test_only_a_running_job_whose_lease_is_over_is_rescued(
    status: str, over: bool
) -> None:
    values = {}
    if status == JobStatus.IN_PROGRESS and over:
        values["lease_until"] = timezone.now() - timedelta(seconds=5)
    make_job(status, **values)

    rescued = recovery.rescue_expired()

    assert rescued == (1 if status == JobStatus.IN_PROGRESS and over else 0)


@pytest.mark.django_db
def test_the_longest_over_are_rescued_first() -> None:
    jobs = [_over() for _ in range(3)]
    BuildJob.objects.filter(pk=jobs[1].pk).update(
        lease_until=timezone.now() - timedelta(hours=1)
    )

    assert [job.pk for job in leases.over(limit=1)] == [jobs[1].pk]


@pytest.mark.django_db
def test_hooks_that_fail_for_ever_leave_the_others_their_turn(
    add_kind: AddKind,
) -> None:
    def fail(job: BuildJob) -> None:
        raise ValueError("for ever")

    well, ill = add_kind(), add_kind(on_final=fail)
    for _ in range(5):
        make_job(JobStatus.DONE, payload={"kind": ill}, hook_pending=True)
    job = make_job(JobStatus.DONE, payload={"kind": well}, hook_pending=True)

    for _ in range(200):
        recovery.retry_hooks(limit=2)
        if not _fresh(job).hook_pending:
            break

    assert not _fresh(job).hook_pending


def test_two_that_retry_a_hook_run_it_once(committed: None, add_kind: AddKind) -> None:
    from tests.host.models import Effect

    kind = add_kind(on_final=lambda job: Effect.objects.create(label="hook") and None)
    make_job(JobStatus.DONE, payload={"kind": kind}, hook_pending=True)

    race(4, lambda _: recovery.retry_hooks())

    assert Effect.objects.count() == 1
    assert transitions.retry_final_hook(uuid.uuid4()) is False
