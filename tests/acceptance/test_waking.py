"""Does a job start when it is told, and in the order it should? The poll is a minute."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from django.db.models import F
from django.utils import timezone

from buildqueue.models import BuildJob, JobRun
from buildqueue.states import FINAL, JobStatus
from tests.support.jobs import enqueue, wait_for
from tests.support.processes import Workers
from tests.support.waiting import wait_until

SOON = 30.0  # half a poll: what took less was told


def test_an_enqueued_job_starts_by_its_notice(workers: Workers) -> None:
    workers.start()
    for _ in range(3):
        wait_for(enqueue("ok"), timeout=SOON)


def test_a_scheduled_job_starts_when_it_is_due(workers: Workers) -> None:
    workers.start(rescue_seconds=60.0)
    due = timezone.now() + timedelta(seconds=2)
    job = enqueue("ok", options={"due_at": due})
    assert job.status == JobStatus.SCHEDULED
    assert wait_for(job, timeout=SOON).status == JobStatus.DONE
    assert BuildJob.objects.filter(first_started_at__gte=F("due_at")).exists()


def test_a_retry_starts_when_its_delay_is_over(workers: Workers) -> None:
    workers.start(
        rescue_seconds=60.0, backoff_base_seconds=1.0, backoff_max_seconds=2.0
    )
    job = enqueue("raise", until_attempt=2)
    assert wait_for(job, timeout=SOON).status == JobStatus.DONE


def test_an_isolated_job_starts_although_the_slot_is_used(workers: Workers) -> None:
    workers.start("--slots", "1")
    wait_for(enqueue("ok"), timeout=SOON)
    isolated = [enqueue("ok", kind="isolated_probe") for _ in range(3)]
    for job in isolated:
        assert wait_for(job, timeout=SOON).status == JobStatus.DONE
    slots = JobRun.objects.values_list("slot", flat=True)
    assert len(set(slots)) == len(slots) == 4


def test_an_isolated_job_is_not_overtaken_by_what_came_later(workers: Workers) -> None:
    first = enqueue("ok")
    isolated = enqueue("ok", kind="isolated_probe")
    later = [enqueue("ok") for _ in range(5)]
    workers.start("--slots", "1", "--burst", ready=False).wait()
    order = list(JobRun.objects.order_by("started_at").values_list("job_id", flat=True))
    assert order == [first.pk, isolated.pk, *(job.pk for job in later)]


def test_a_burst_is_drained(workers: Workers) -> None:
    workers.start("--slots", "2")
    for _ in range(500):
        enqueue("ok")
    ended = BuildJob.objects.filter(status__in=FINAL)
    wait_until(lambda: ended.count() == 500, timeout=120, message=ended.count)


def test_jobs_under_a_key_never_overlap_and_keep_their_order(workers: Workers) -> None:
    for _ in range(2):
        workers.start("--slots", "2")
    jobs = []
    for number in range(12):
        behavior = "raise" if number == 3 else "kill" if number == 6 else "hang"
        options = {"serial_key": "one"}
        jobs.append(enqueue(behavior, until_attempt=1, seconds=0.05, options=options))
    for job in jobs:
        assert wait_for(job).status == JobStatus.DONE
    runs = list(JobRun.objects.order_by("started_at"))
    assert len(runs) == 14
    for before, after in pairwise(runs):
        assert before.ended_at is not None
        assert before.ended_at <= after.started_at
    order = list(dict.fromkeys(run.job_id for run in runs))
    assert order == [job.pk for job in jobs]


def test_a_job_waits_for_a_worker_that_can_do_it(workers: Workers) -> None:
    workers.start()
    needy = enqueue("ok", options={"requires": "special"})
    assert wait_for(enqueue("ok")).status == JobStatus.DONE
    needy.refresh_from_db()
    assert needy.status == JobStatus.PENDING
    able = workers.start(capabilities=["tests.host.abilities.special"])
    wait_for(needy)
    assert JobRun.objects.get(job_id=needy.pk).worker == able.row.pk


def test_a_worker_serves_its_queues_alone(workers: Workers) -> None:
    workers.start("--queues", "a, b")
    other = enqueue("ok", options={"queue": "c"})
    for name in ("a", "b"):
        assert wait_for(enqueue("ok", options={"queue": name}), timeout=SOON)
    due = {"queue": "c", "due_at": timezone.now() + timedelta(seconds=1)}
    promoted = enqueue("ok", options=due)
    wait_for(promoted, JobStatus.PENDING, timeout=SOON)
    other.refresh_from_db()
    assert other.status == JobStatus.PENDING
    workers.start("--queues", "c")
    assert wait_for(other, timeout=SOON).status == JobStatus.DONE
    assert wait_for(promoted, timeout=SOON).status == JobStatus.DONE
