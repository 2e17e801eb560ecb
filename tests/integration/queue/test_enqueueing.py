"""Is a job as durable, and as undone, as the transaction that enqueued it?"""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from buildqueue import signals
from buildqueue.exceptions import DuplicateJob, InvalidPayload, UnknownKind
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue.enqueueing import enqueue
from buildqueue.states import JobStatus
from tests.factories import make_agent, make_build
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.support.notices import Notices
from tests.support.races import race

from .conftest import AddKind


def test_a_rolled_back_transaction_leaves_neither_job_nor_wakeup(
    notices: Notices,
) -> None:
    def fail_after_enqueueing() -> None:
        with transaction.atomic():
            agent = make_agent()
            make_build(agent)
            enqueue(Probe(), agent_id=agent.pk)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_enqueueing()

    assert not BuildJob.objects.exists()
    assert not JobEvent.objects.exists()
    assert notices.heard() == []


def test_a_job_is_seen_and_told_with_the_commit_and_not_before(
    notices: Notices,
) -> None:
    def others_see() -> int:
        return race(1, lambda _: BuildJob.objects.count())[0]

    with transaction.atomic():
        Effect.objects.create(label="mine")
        enqueue(Probe(), queue="urgent")
        assert others_see() == 0
        assert notices.heard() == []

    assert others_see() == 1
    assert notices.heard() == ["q:urgent"]


def test_one_wakeup_a_transaction_and_queue_is_enough(notices: Notices) -> None:
    with transaction.atomic():
        for _ in range(5):
            enqueue(Probe(), queue="a")
        enqueue(Probe(), queue="b")

    assert sorted(notices.heard()) == ["q:a", "q:b"]


def test_the_wakeup_of_a_savepoint_that_was_rolled_back_is_not_sent(
    notices: Notices,
) -> None:
    def give_up() -> None:
        with transaction.atomic():
            enqueue(Probe(), queue="given_up")
            raise ZeroDivisionError

    with transaction.atomic():
        with pytest.raises(ZeroDivisionError):
            give_up()
        enqueue(Probe(), queue="kept")

    assert notices.heard() == ["q:kept"]


@pytest.mark.django_db
def test_a_job_is_stored_as_it_was_asked_for() -> None:
    due = timezone.now() + timedelta(hours=1)

    job = enqueue(
        Probe(label="x"),
        owner_id="9",
        queue="q",
        priority=5,
        due_at=due,
        max_attempts=7,
        serial_key="s",
        dedupe_key="d",
        requires="gpu",
    )

    stored = BuildJob.objects.get(pk=job.pk)
    assert stored.status == JobStatus.SCHEDULED
    assert (stored.owner_id, stored.queue, stored.priority) == ("9", "q", 5)
    assert (stored.due_at, stored.max_attempts) == (due, 7)
    assert (stored.serial_key, stored.dedupe_key, stored.requires) == ("s", "d", "gpu")
    assert stored.payload["label"] == "x"
    assert (stored.lease_id, stored.lease_until, stored.attempt) == (None, None, 0)
    event = JobEvent.objects.get(job_id=job.pk)
    assert (event.kind, event.title, event.actor) == ("enqueue", "scheduled", "owner")


@pytest.mark.django_db
def test_a_kinds_own_queue_and_allowance_count_when_none_is_given(
    add_kind: AddKind,
) -> None:
    kind = add_kind(queue="builds", max_attempts=9)

    job = enqueue({"kind": kind})

    assert (job.queue, job.max_attempts) == ("builds", 9)


@pytest.mark.django_db
def test_a_kind_that_nobody_runs_is_refused() -> None:
    with pytest.raises(UnknownKind, match=r"registered kinds: .*probe"):
        enqueue({"kind": "nobody"})
    with pytest.raises(UnknownKind):
        enqueue({})

    assert not BuildJob.objects.exists()


@pytest.mark.django_db
def test_a_payload_that_does_not_parse_is_refused_field_by_field() -> None:
    with pytest.raises(InvalidPayload) as refused:
        enqueue({"kind": "probe", "lines": "many", "typo": 1})

    assert set(refused.value.errors) == {"lines", "typo"}
    assert not BuildJob.objects.exists()


def test_a_duplicate_names_the_open_job_and_leaves_the_transaction_usable(
    committed: None,
) -> None:
    first = enqueue(Probe(), dedupe_key="nightly")

    with transaction.atomic():
        Effect.objects.create(label="mine")
        with pytest.raises(DuplicateJob) as refused:
            enqueue(Probe(), dedupe_key="nightly")
        enqueue(Probe(), dedupe_key="other")

    assert refused.value.job_id == first.pk
    assert Effect.objects.count() == 1
    assert BuildJob.objects.count() == 2


@pytest.mark.django_db
def test_a_key_is_free_again_when_its_job_has_ended() -> None:
    first = enqueue(Probe(), dedupe_key="nightly")
    BuildJob.objects.filter(pk=first.pk).update(
        status="done", completed_at=timezone.now()
    )

    assert enqueue(Probe(), dedupe_key="nightly").pk != first.pk


def test_of_twenty_that_race_for_a_key_one_enqueues(committed: None) -> None:
    def attempt(number: int) -> bool:
        try:
            enqueue(Probe(label=str(number)), dedupe_key="once")
        except DuplicateJob:
            return False
        return True

    assert race(20, attempt).count(True) == 1
    assert BuildJob.objects.count() == 1


def test_a_receiver_that_raises_changes_nothing(
    committed: None, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(**facts: object) -> None:
        raise ValueError("a host's fault")

    signals.job_enqueued.connect(fail)
    try:
        enqueue(Probe())
    finally:
        signals.job_enqueued.disconnect(fail)

    assert BuildJob.objects.count() == 1
    assert "a host's fault" in caplog.text


def test_a_key_to_an_agent_that_is_not_there_is_refused_by_the_commit(
    committed: None,
) -> None:
    with pytest.raises(IntegrityError, match="agent_id_fk"):
        enqueue(Probe(), agent_id=uuid.uuid4())

    assert not BuildJob.objects.exists()
    assert connection.get_autocommit()
