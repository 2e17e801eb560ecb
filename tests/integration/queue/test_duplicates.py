"""What becomes of a job whose dedupe key an open job holds, and who keeps the order?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from buildqueue.exceptions import DuplicateJob
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import verbs
from buildqueue.queue.enqueueing import OnDuplicate, enqueue
from buildqueue.queue.outcomes import Actor
from buildqueue.states import FINAL, OPEN, UNCLAIMED, JobStatus
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.support.jobs import fresh, kinds
from tests.support.races import race
from tests.support.turns import claim

ANNA = Actor(label="anna", id="7")
KEY = "nightly"


def _enqueue(on_duplicate: OnDuplicate, **options: Any) -> BuildJob:
    probe = Probe(label=options.pop("label", ""))
    return enqueue(probe, dedupe_key=KEY, on_duplicate=on_duplicate, **options)


# -- return --------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(OPEN))
def test_with_return_the_open_job_is_returned_and_nothing_is_enqueued(
    status: str,
) -> None:
    held = make_job(status, dedupe_key=KEY)

    found = _enqueue("return")

    assert found.pk == held.pk
    assert found.status == status
    assert BuildJob.objects.count() == 1
    assert not JobEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(FINAL))
@pytest.mark.parametrize("on_duplicate", ["reject", "return", "replace"])
def test_a_job_that_has_ended_holds_no_key(
    on_duplicate: OnDuplicate, status: str
) -> None:
    ended = make_job(status, dedupe_key=KEY)

    made = _enqueue(on_duplicate)

    assert made.pk != ended.pk
    assert made.status == JobStatus.PENDING
    assert fresh(ended).status == status


@pytest.mark.parametrize("on_duplicate", ["return", "reject"])
def test_twenty_that_enqueue_one_key_at_once_make_one_job(
    committed: None, on_duplicate: OnDuplicate
) -> None:
    def act(number: int) -> tuple[object, bool]:
        try:
            return _enqueue(on_duplicate, label=str(number)).pk, True
        except DuplicateJob as duplicate:
            return duplicate.job_id, False

    answers = race(20, act)

    [job] = BuildJob.objects.all()
    assert [pk for pk, _ in answers] == [job.pk] * 20
    assert sum(taken for _, taken in answers) == (20 if on_duplicate == "return" else 1)
    assert kinds(job) == ["enqueue"]


def test_a_key_whose_holder_is_rolled_back_goes_to_who_waited_for_it(
    committed: None,
) -> None:
    def act(number: int) -> str:
        try:
            with transaction.atomic():
                job = _enqueue("return", label=str(number))
                if job.payload["label"] == str(number) and number % 2:
                    raise ZeroDivisionError
                return str(job.pk)
        except ZeroDivisionError:
            return ""

    answers = set(race(8, act)) - {""}

    [job] = BuildJob.objects.all()
    assert answers == {str(job.pk)}


# -- replace -------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(UNCLAIMED))
def test_with_replace_a_job_that_has_not_begun_gives_way(status: str) -> None:
    old = make_job(status, dedupe_key=KEY)

    new = _enqueue("replace", owner_id="7")

    assert new.status == JobStatus.PENDING
    replaced = fresh(old)
    assert (replaced.status, replaced.error_code) == ("cancelled", "replaced")
    event = JobEvent.objects.get(job_id=old.pk)
    assert (event.kind, event.actor, event.actor_id) == ("cancel", "owner", "7")


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(OPEN - UNCLAIMED))
def test_with_replace_a_job_that_has_begun_stays_and_the_new_one_is_refused(
    status: str,
) -> None:
    old = make_job(status, dedupe_key=KEY)
    before = BuildJob.objects.values().get()

    with transaction.atomic():
        with pytest.raises(DuplicateJob) as refused:
            _enqueue("replace")
        other = enqueue(Probe())

    assert refused.value.job_id == old.pk
    assert BuildJob.objects.filter(pk=old.pk).values().get() == before
    assert other.status == JobStatus.PENDING


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(UNCLAIMED))
def test_with_replace_a_job_that_has_ever_run_stays(status: str) -> None:
    old = make_job(status, dedupe_key=KEY, attempt=1)

    with pytest.raises(DuplicateJob):
        _enqueue("replace")

    assert fresh(old).status == status


@pytest.mark.django_db
def test_a_replacement_that_is_rolled_back_leaves_the_old_one() -> None:
    old = make_job(dedupe_key=KEY)

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        _enqueue("replace")
        raise ZeroDivisionError

    assert fresh(old).status == JobStatus.PENDING
    assert BuildJob.objects.count() == 1


def test_many_that_replace_at_once_leave_one_open_job(committed: None) -> None:
    make_job(dedupe_key=KEY)

    def act(number: int) -> bool:
        try:
            _enqueue("replace", label=str(number))
        except DuplicateJob:
            return False
        return True

    taken = sum(race(8, act))

    assert BuildJob.objects.filter(completed_at=None).count() == 1
    assert BuildJob.objects.filter(error_code="replaced").count() == taken
    assert taken >= 1


def test_replacing_and_claiming_at_once_never_loses_both_or_runs_both(
    committed: None,
) -> None:
    for _ in range(25):
        old = make_job(dedupe_key=KEY)

        def act(number: int) -> object:
            if number == 0:
                return claim()
            try:
                return _enqueue("replace")
            except DuplicateJob:
                return None

        race(2, act)

        still = BuildJob.objects.get(completed_at=None)
        if fresh(old).status == JobStatus.IN_PROGRESS:
            assert still.pk == old.pk
        else:
            assert fresh(old).error_code == "replaced"
        for job in BuildJob.objects.filter(completed_at=None):
            verbs.cancel(job.pk, actor=ANNA)


# -- order ---------------------------------------------------------------------------


@pytest.mark.django_db
def test_under_a_serial_key_the_order_of_arrival_is_kept_whoever_is_replaced() -> None:
    first = enqueue(Probe(), serial_key="s")
    second = _enqueue("reject", serial_key="s")
    third = enqueue(Probe(), serial_key="s")
    newer = _enqueue("replace", serial_key="s")

    order = []
    while (job := claim()) is not None:
        order.append(job.pk)
        assert claim() is None  # one at a time
        from .test_endings import _finish

        _finish(job)

    assert order == [first.pk, third.pk, newer.pk]
    assert fresh(second).status == JobStatus.CANCELLED
