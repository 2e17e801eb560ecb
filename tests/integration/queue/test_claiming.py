"""Who gets which job, in which order, and does anybody ever wait for anybody?"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone

from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import claiming, recovery, transitions, verbs
from buildqueue.queue.claiming import Scope
from buildqueue.queue.outcomes import Actor, Cause
from buildqueue.queue.transitions import Holder, taking
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job, make_run
from tests.host.jobs import Probe
from tests.support.races import race
from tests.support.scratch import url_of
from tests.support.turns import holder

ANNA = Actor(label="anna")
CRASH = Cause(outcome=RunOutcome.CRASHED, code="crashed", message="it crashed")
PAYLOAD = Probe().model_dump(mode="json")


def _claim(limit: int = 1, **scope: tuple[str, ...]) -> list[uuid.UUID]:
    return [job.pk for job in claiming.claim(Scope(**scope), holder(), limit=limit)]


def _claim_labels(limit: int) -> list[str]:
    return [
        job.payload["label"] for job in claiming.claim(Scope(), holder(), limit=limit)
    ]


def _many(count: int, **values: object) -> None:
    BuildJob.objects.bulk_create(
        BuildJob(payload=PAYLOAD | {"label": str(number)}, **values)
        for number in range(count)
    )


def _finish(job: BuildJob) -> None:
    from .test_endings import _finish as finish

    finish(job)


@contextmanager
def _locked(job: BuildJob) -> Iterator[None]:
    """Hold the job's row in another transaction."""
    url = url_of(connection.settings_dict["NAME"])
    with psycopg.connect(url) as session:
        session.execute(
            "SELECT 1 FROM buildqueue_buildjob WHERE id = %s FOR UPDATE", [job.pk]
        )
        yield
        session.rollback()


@contextmanager
def _never_waiting() -> Iterator[None]:
    """Make a wait for a lock an error: whoever would wait fails at once."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1ms'")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")


# -- what a claim writes -----------------------------------------------------------


@pytest.mark.django_db
def test_a_claim_makes_a_lease_a_run_and_an_event() -> None:
    job = make_job(owner_id="9")
    who = holder(lease=90)

    [claimed] = claiming.claim(Scope(), who)

    assert claimed.pk == job.pk
    assert (claimed.status, claimed.attempt) == (JobStatus.IN_PROGRESS, 1)
    assert claimed.lease_id is not None
    assert (claimed.worker, claimed.slot) == (who.worker, who.slot)
    assert claimed.picked_at is not None
    assert claimed.lease_until is not None
    lasting = claimed.lease_until - claimed.picked_at
    assert abs(lasting - timedelta(seconds=90)) < timedelta(seconds=1)
    run = JobRun.objects.get()
    assert (run.pk, run.attempt, run.pid) == (claimed.lease_id, 1, who.pid)
    assert (run.owner_id, run.ended_at, run.outcome) == ("9", None, None)
    [event] = JobEvent.objects.all()
    assert (event.kind, event.run, event.attempt) == ("claim", claimed.lease_id, 1)


@pytest.mark.django_db
def test_each_claim_makes_a_new_lease_and_counts_the_attempt() -> None:
    job = make_job(max_attempts=100)
    leases = set()

    for attempt in range(1, 4):
        [claimed] = claiming.claim(Scope(), holder())
        assert claimed.attempt == attempt
        leases.add(claimed.lease_id)
        recovery.rescue([claimed], CRASH)

    assert len(leases) == 3
    assert JobRun.objects.filter(job=job).count() == 3


# -- order -------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_thousand_jobs_of_one_bulk_insert_run_in_the_order_of_the_insert() -> None:
    _many(1000)

    taken: list[str] = []
    while labels := _claim_labels(100):
        taken += labels

    assert taken == [str(number) for number in range(1000)]


@pytest.mark.django_db
def test_the_more_urgent_comes_first_and_then_the_longer_due() -> None:
    now = timezone.now()
    late = make_job(due_at=now - timedelta(seconds=1))
    early = make_job(due_at=now - timedelta(seconds=9))
    low = make_job(priority=-5, due_at=now - timedelta(hours=1))
    high = make_job(priority=5)

    order = [*_claim(), *_claim(), *_claim(), *_claim()]

    assert order == [high.pk, early.pk, late.pk, low.pk]


@pytest.mark.django_db
def test_a_batch_is_in_the_order_in_which_single_claims_would_be() -> None:
    for priority in (0, 7, -3, 7):
        make_job(priority=priority)
    order = BuildJob.objects.order_by("-priority", "due_at", "seq")
    expected = list(order.values_list("pk", flat=True))

    assert _claim(10) == expected


@pytest.mark.django_db
def test_among_queues_the_most_urgent_head_comes_first() -> None:
    make_job(queue="a", priority=1)
    make_job(queue="b", priority=9)
    make_job(queue="c", priority=5)

    assert claiming.queues_by_head([]) == ["b", "c", "a"]
    assert claiming.queues_by_head(["a", "c"]) == ["c", "a"]


# -- who is no candidate -----------------------------------------------------------


@pytest.mark.django_db
def test_a_worker_takes_only_from_the_queues_it_serves() -> None:
    other = make_job(queue="other")
    mine = make_job(queue="mine")

    assert _claim(10, queues=("mine", "empty")) == [mine.pk]
    assert _claim(10) == [other.pk]


@pytest.mark.django_db
def test_a_job_that_requires_something_goes_only_to_who_has_it() -> None:
    job = make_job(requires="host:a")

    assert _claim() == []
    assert _claim(capabilities=("host:b",)) == []
    assert _claim(capabilities=("host:b", "host:a")) == [job.pk]


@pytest.mark.django_db
def test_a_scope_of_kinds_takes_only_these_and_passes_no_head_of_another() -> None:
    mine, other = make_job(), make_job(payload={"kind": "other"})
    behind = make_job()
    scope = Scope(kinds=("probe",))

    assert not claiming.other_kinds_wait(scope)
    assert _claim(kinds=("probe",)) == [mine.pk]
    assert claiming.other_kinds_wait(scope)
    assert _claim(kinds=("probe",)) == []
    assert _claim(10) == [other.pk, behind.pk]


@pytest.mark.django_db
def test_a_worker_of_no_kinds_takes_nothing() -> None:
    make_job()

    assert _claim(10, kinds=()) == []
    nothing = claiming.candidates("default", Scope(kinds=()), 1)
    assert transitions.take(nothing, holder()) == []


@pytest.mark.django_db
def test_a_held_job_is_not_taken() -> None:
    make_job(held=True)

    assert _claim() == []
    free = make_job()
    assert _claim(10) == [free.pk]


@pytest.mark.django_db
def test_a_job_whose_old_process_may_live_keeps_no_other_from_its_turn() -> None:
    make_job(priority=9)
    [first] = claiming.claim(Scope(), holder())
    verbs.release(first.pk, actor=ANNA, reason="it hangs")
    other = make_job()

    assert _claim(10) == [other.pk]


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(set(JobStatus) - {JobStatus.PENDING}))
def test_only_a_pending_job_is_taken_however_often_one_asks(status: str) -> None:
    job = make_job(status, due_at=timezone.now() + timedelta(hours=1))

    assert all(_claim() == [] for _ in range(20))
    assert BuildJob.objects.get(pk=job.pk).status == status


# -- due times ---------------------------------------------------------------------


def _due_in(job: BuildJob, interval: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET due_at = statement_timestamp() "
            "+ %s::interval WHERE id = %s",
            [interval, job.pk],
        )


@pytest.mark.django_db
def test_a_scheduled_job_is_taken_when_the_databases_clock_says_so() -> None:
    job = make_job(JobStatus.SCHEDULED)

    _due_in(job, "1 minute")
    assert _claim() == []
    _due_in(job, "0")
    assert _claim() == [job.pk]
    events = JobEvent.objects.filter(job_id=job.pk).order_by("id")
    assert [event.kind for event in events] == ["promote", "claim"]


@pytest.mark.django_db
def test_a_workers_own_clock_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(JobStatus.SCHEDULED)
    _due_in(job, "1 hour")
    later = timezone.now() + timedelta(days=1)
    monkeypatch.setattr(timezone, "now", lambda: later)
    monkeypatch.setattr("buildqueue.clock.now", lambda: later)

    assert _claim() == []


@pytest.mark.django_db
def test_promoting_takes_the_longest_due_first_and_not_too_many_at_once() -> None:
    jobs = [make_job(JobStatus.SCHEDULED) for _ in range(3)]
    for minutes, job in enumerate(jobs, start=1):
        _due_in(job, f"-{minutes} minutes")

    assert transitions.promote_due(limit=2) == ["default"]

    left = BuildJob.objects.get(status=JobStatus.SCHEDULED)
    assert left.pk == jobs[0].pk
    assert JobEvent.objects.filter(kind="promote").count() == 2


@pytest.mark.django_db
def test_promoting_nothing_says_so() -> None:
    make_job()

    assert transitions.promote_due() == []


# -- one at a time under a key -----------------------------------------------------


@pytest.mark.django_db
def test_under_a_serial_key_one_runs_and_the_order_is_kept() -> None:
    first, second = make_job(serial_key="k"), make_job(serial_key="k", priority=50)
    free = make_job()

    assert set(_claim(10)) == {first.pk, free.pk}
    assert _claim(10) == []
    _finish(BuildJob.objects.get(pk=first.pk))
    assert _claim(10) == [second.pk]


@pytest.mark.django_db
def test_a_head_that_waits_for_its_retry_keeps_its_place() -> None:
    head = make_job(
        JobStatus.SCHEDULED,
        serial_key="k",
        attempt=1,
        due_at=timezone.now() + timedelta(hours=1),
    )
    follower = make_job(serial_key="k")

    assert _claim() == []
    verbs.cancel(head.pk, actor=ANNA)
    assert _claim() == [follower.pk]


@pytest.mark.django_db
def test_a_job_that_is_first_due_later_does_not_hold_back_its_key() -> None:
    make_job(
        JobStatus.SCHEDULED, serial_key="k", due_at=timezone.now() + timedelta(hours=1)
    )
    follower = make_job(serial_key="k")

    assert _claim() == [follower.pk]


@pytest.mark.django_db
@pytest.mark.parametrize("status", ["paused", "waiting_input", "waiting_children"])
def test_a_job_that_waits_for_somebody_frees_its_key(status: str) -> None:
    make_job(status, serial_key="k", attempt=1)
    follower = make_job(serial_key="k")

    assert _claim() == [follower.pk]


@pytest.mark.django_db
def test_a_revoked_run_keeps_its_key_until_its_process_is_dead() -> None:
    make_job(serial_key="k")
    follower = make_job(serial_key="k")
    [claimed] = claiming.claim(Scope(), holder())

    verbs.cancel(claimed.pk, actor=ANNA)
    assert _claim() == []
    assert claimed.slot is not None
    recovery.rescue_slot(claimed.slot, CRASH, started=claimed.lease_id)
    assert _claim() == [follower.pk]


@pytest.mark.django_db
def test_a_claim_that_the_index_of_open_runs_refuses_takes_nothing() -> None:
    job = make_job(serial_key="k")
    other = make_job()
    make_run(other, serial_key="k")
    # Not through `candidates`, which would have seen the open run.
    unguarded = BuildJob.objects.filter(pk=job.pk).select_for_update(of=("self",))

    assert transitions.take(unguarded, holder()) == []

    job.refresh_from_db()
    assert (job.status, job.attempt) == (JobStatus.PENDING, 0)


# -- many at once ------------------------------------------------------------------


@pytest.mark.slow
def test_eight_that_claim_at_once_get_each_job_once(committed: None) -> None:
    _many(2000)

    def drain(number: int) -> list[uuid.UUID]:
        mine: list[uuid.UUID] = []
        while found := _claim(1 + number * 3):
            mine += found
        return mine

    shares = race(8, drain)

    taken = Counter(job for share in shares for job in share)
    assert set(taken.values()) == {1}
    assert len(taken) == 2000
    assert JobRun.objects.count() == 2000
    assert set(BuildJob.objects.values_list("attempt", flat=True)) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("racers", [2, 8])
def test_of_all_that_want_one_job_exactly_one_gets_it(
    committed: None, racers: int
) -> None:
    rounds = 100
    for number in range(rounds):
        make_job(queue=f"round-{number:03}")
    together = threading.Barrier(racers)

    def claim_each_round(_: int) -> list[int]:
        won = []
        for number in range(rounds):
            together.wait(60)
            won.append(len(_claim(queues=(f"round-{number:03}",))))
        return won

    shares = race(racers, claim_each_round)

    assert [sum(won) for won in zip(*shares, strict=True)] == [1] * rounds
    assert set(BuildJob.objects.values_list("attempt", flat=True)) == {1}
    assert JobRun.objects.count() == rounds


@pytest.mark.slow
def test_under_a_contended_key_no_two_ever_run_and_the_order_is_kept(
    committed: None,
) -> None:
    _many(24, serial_key="k")
    overlaps: list[int] = []

    def work(number: int) -> list[str]:
        mine = []
        while BuildJob.objects.filter(completed_at__isnull=True).exists():
            for job in claiming.claim(Scope(), holder()):
                overlaps.append(JobRun.objects.filter(ended_at__isnull=True).count())
                mine.append(job.payload["label"])
                _finish(job)
        return mine

    shares = race(6, work)

    assert sum(map(len, shares)) == 24
    assert set(overlaps) == {1}
    order = BuildJob.objects.order_by("picked_at").values_list("seq", flat=True)
    assert list(order) == sorted(order)


def test_a_claim_does_not_wait_for_a_job_that_somebody_holds(committed: None) -> None:
    locked, free = make_job(priority=9), make_job()

    with _locked(locked), _never_waiting():
        assert _claim(10) == [free.pk]

    assert _claim() == [locked.pk]


def test_promoting_does_not_wait_for_a_job_that_somebody_holds(
    committed: None,
) -> None:
    past = timezone.now() - timedelta(hours=1)
    locked = make_job(JobStatus.SCHEDULED, due_at=past)
    make_job(JobStatus.SCHEDULED, due_at=past)

    with _locked(locked), _never_waiting():
        transitions.promote_due()

    assert BuildJob.objects.get(status=JobStatus.SCHEDULED).pk == locked.pk


def test_a_claim_whose_transaction_is_rolled_back_has_not_happened(
    committed: None,
) -> None:
    job = make_job()

    def claim_and_die() -> None:
        with transaction.atomic():
            assert _claim() == [job.pk]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        claim_and_die()

    job.refresh_from_db()
    assert (job.status, job.attempt, job.lease_id) == (JobStatus.PENDING, 0, None)
    assert not JobRun.objects.exists()


@pytest.mark.django_db
def test_the_compiled_claim_skips_locked_rows_of_the_job_alone() -> None:
    statement, _ = taking.claim_sql(
        claiming.candidates("default", Scope(), 1),
        Holder(worker=uuid.uuid4(), slot=uuid.uuid4(), pid=1, lease=timedelta(1)),
    )

    assert 'FOR NO KEY UPDATE OF "buildqueue_buildjob" SKIP LOCKED' in statement
