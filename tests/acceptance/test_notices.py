"""Row M40: does whoever should be told hear of it, whatever dies in between?"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone
from standardwebhooks import Webhook

from buildqueue.models import BuildJob, Notice
from buildqueue.queue import outbox
from tests.support.jobs import enqueue, wait_for
from tests.support.processes import Workers
from tests.support.receiver import SECRET, Receiver, receiving
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Receive webhooks on loopback, whatever proxies the environment names."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with receiving() as made:
        yield made


def _all_sent() -> bool:
    return not Notice.objects.exclude(status="sent").exists()


def test_how_jobs_ended_is_told_within_a_moment(
    workers: Workers, receiver: Receiver
) -> None:
    events = ["job.done", "job.failed"]
    workers.start(notices=[receiver.destination(events=events)])
    done, failed = enqueue("ok"), enqueue("fail")
    for job in (done, failed):
        wait_for(job)

    wait_until(lambda: len(receiver.received) == 2, message=receiver.ids)

    heard = {
        notice["data"]["job"]: notice
        for got in receiver.received
        if (notice := Webhook(SECRET).verify(got.body, got.headers))
    }
    assert heard[str(done.pk)]["type"] == "job.done"
    assert heard[str(failed.pk)]["type"] == "job.failed"
    assert heard[str(failed.pk)]["data"]["error"]["code"] == "told_to"
    wait_until(_all_sent)


def test_a_notice_whose_worker_died_before_sending_is_sent_by_the_next_one_once(
    workers: Workers, receiver: Receiver
) -> None:
    """The outcome is committed, the process is killed before any duty has looked."""
    notices: Any = [receiver.destination()]
    first = workers.start("--no-duties", notices=notices)
    job = wait_for(enqueue("ok"))
    first.signal(signal.SIGKILL)
    first.wait()
    assert Notice.objects.get(job_id=job.pk).status == "pending"
    assert receiver.received == []

    workers.start(notices=notices)
    wait_until(_all_sent)

    with override_settings(BUILDQUEUE={"NOTICES": notices}):
        assert outbox.send_due() == 0  # a second look finds nothing to send
    notice = Notice.objects.get(job_id=job.pk)
    assert receiver.ids() == [str(notice.pk)]
    assert notice.tries == 1


def test_a_notice_whose_worker_died_while_sending_comes_again_with_its_id(
    workers: Workers, receiver: Receiver
) -> None:
    first = workers.start(notices=[receiver.destination("/silent")])
    job = wait_for(enqueue("ok"))
    wait_until(lambda: receiver.received)
    first.signal(signal.SIGKILL)
    first.wait()
    wait_until(first.all_gone)
    notice = Notice.objects.get(job_id=job.pk)
    assert (notice.status, notice.tries) == ("pending", 1)
    assert notice.due_at > timezone.now()  # held: it may have been taken

    workers.start(notices=[receiver.destination("/ok")])
    Notice.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    wait_until(_all_sent)

    assert receiver.ids() == [str(notice.pk)] * 2


def test_a_failing_duty_of_the_host_keeps_neither_notices_nor_retention(
    workers: Workers, receiver: Receiver
) -> None:
    job = enqueue("ok")
    workers.start(
        duties=["json.loads"],  # called without its argument: it raises at every tick
        notices=[receiver.destination()],
        retention_done_days=1,
    )
    wait_for(job)
    wait_until(lambda: receiver.received)
    long_ago = timezone.now() - timedelta(days=2)

    BuildJob.objects.filter(pk=job.pk).update(
        created_at=long_ago, completed_at=long_ago
    )

    wait_until(lambda: not BuildJob.objects.filter(pk=job.pk).exists())
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM buildqueue_jobevent")
        assert cursor.fetchone()[0] == 0
    assert "duty failed" in workers.started[0].output()


def test_two_workers_share_many_notices_and_send_each_once(
    workers: Workers, receiver: Receiver
) -> None:
    body = {"type": "job.done", "timestamp": "2030-01-01T00:00:00+00:00", "data": {}}
    made = Notice.objects.bulk_create(
        Notice(key=f"k{n}", destination="ops", event="job.done", body=body)
        for n in range(50)
    )

    for _ in range(2):
        workers.start(notices=[receiver.destination()], ready=False)
    wait_until(_all_sent, message=lambda: len(receiver.received))

    assert sorted(receiver.ids()) == sorted(str(each.pk) for each in made)
