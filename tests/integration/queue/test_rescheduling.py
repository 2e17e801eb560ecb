"""Can a job be made more urgent, put off or brought forward, for as long as it matters?"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from buildqueue.exceptions import InvalidOption, InvalidTransition
from buildqueue.models import JobEvent
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor
from buildqueue.states import FINAL, OPEN, UNCLAIMED, JobStatus
from tests.factories import make_job
from tests.support.jobs import fresh
from tests.support.notices import Notices
from tests.support.turns import claims

ANNA = Actor(label="anna", id="7")


@pytest.mark.django_db
def test_a_job_made_urgent_overtakes_the_others() -> None:
    make_job()
    late = make_job()

    after = verbs.change_priority(late.pk, priority=100, actor=ANNA, reason="VIP")

    assert after.priority == 100
    assert [job.pk for job in claims()] == [late.pk]
    event = JobEvent.objects.get(kind="priority_changed")
    assert event.detail == {"from": 0, "to": 100}
    assert (event.actor, event.reason) == ("anna", "VIP")


@pytest.mark.django_db
@pytest.mark.parametrize("priority", [-101, 101, 1.5, "high", None])
def test_a_priority_out_of_its_range_is_refused(priority: Any) -> None:
    job = make_job()

    with pytest.raises(InvalidOption, match="from -100 to 100") as refused:
        verbs.change_priority(job.pk, priority=priority, actor=ANNA)

    assert set(refused.value.fields) == {"priority"}
    assert fresh(job).priority == 0
    assert not JobEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(OPEN))
def test_the_priority_of_any_open_job_can_be_changed(status: str) -> None:
    job = make_job(status)

    verbs.change_priority(job.pk, priority=-100, actor=ANNA)

    after = fresh(job)
    assert (after.priority, after.status, after.lease_id) == (
        -100,
        status,
        job.lease_id,
    )


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(FINAL))
def test_the_priority_of_an_ended_job_stays(status: str) -> None:
    job = make_job(status)

    with pytest.raises(InvalidTransition) as refused:
        verbs.change_priority(job.pk, priority=1, actor=ANNA)

    assert refused.value.found == status


def test_a_pending_job_made_urgent_is_told_to_the_workers(notices: Notices) -> None:
    job = make_job(queue="slow")

    verbs.change_priority(job.pk, priority=1, actor=ANNA)

    assert notices.heard() == ["q:slow"]


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(UNCLAIMED))
@pytest.mark.parametrize(
    ("hours", "target"), [(-1, JobStatus.PENDING), (1, JobStatus.SCHEDULED)]
)
def test_a_job_that_has_not_begun_can_be_put_off_or_brought_forward(
    status: str, hours: int, target: str
) -> None:
    job = make_job(status, due_at=timezone.now() + timedelta(minutes=5))
    due = timezone.now() + timedelta(hours=hours)

    after = verbs.change_due(job.pk, due_at=due, actor=ANNA, reason="later")

    assert (after.status, after.due_at) == (target, due)
    assert bool(claims()) == (target == JobStatus.PENDING)
    event = JobEvent.objects.filter(job_id=job.pk).earliest("pk")
    assert (event.kind, event.title, event.reason) == ("reschedule", target, "later")


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(set(JobStatus) - UNCLAIMED))
def test_a_job_that_has_begun_keeps_its_due_time(status: str) -> None:
    job = make_job(status)

    with pytest.raises(InvalidTransition) as refused:
        verbs.change_due(job.pk, due_at=timezone.now(), actor=ANNA)

    assert refused.value.found == status


@pytest.mark.django_db
@pytest.mark.parametrize(
    "due",
    [
        datetime(2030, 1, 1),  # without a zone
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime(9500, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
def test_a_due_time_that_nobody_could_tell_is_refused(due: datetime) -> None:
    job = make_job()

    with pytest.raises(InvalidOption, match="due_at must ") as refused:
        verbs.change_due(job.pk, due_at=due, actor=ANNA)

    assert set(refused.value.fields) == {"due_at"}
    assert fresh(job).due_at == job.due_at


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "values"),
    [
        (verbs.change_priority, {"priority": 1}),
        (verbs.change_due, {"due_at": datetime(2030, 1, 1, tzinfo=UTC)}),
    ],
)
def test_a_job_that_is_not_there_has_neither_priority_nor_due_time(
    change: verbs.Verb, values: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTransition, match="does not exist") as refused:
        change(uuid.uuid4(), actor=ANNA, **values)

    assert refused.value.found is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value", [True, 1.5, "5", None, pytest.param(10**5000, id="huge")]
)
def test_a_priority_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^priority must"):
        verbs.change_priority(make_job().pk, priority=value, actor=ANNA)


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["x", None, 5, datetime(2030, 1, 1)])
def test_a_due_time_that_is_no_moment_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^due_at must"):
        verbs.change_due(make_job().pk, due_at=value, actor=ANNA)
