"""What if the database is lost between a commit and what follows it? Nothing: it is done.

Found by the chaos test: a wake-up that could not be sent was raised, as another error yet,
by an enqueue that had gone well.
"""

from __future__ import annotations

import logging

import pytest
from django.db import OperationalError

from buildqueue.models import BuildJob
from buildqueue.queue import enqueueing, recovery, verbs, wakeups
from buildqueue.queue.outcomes import Actor
from buildqueue.queue.transitions import families
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.host.jobs import Probe

ANNA = Actor(label="anna")

pytestmark = pytest.mark.usefixtures("committed")


def test_a_wakeup_that_cannot_be_sent_does_not_make_the_enqueue_fail(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wakeups, "CHANNEL", "")  # which PostgreSQL refuses
    with caplog.at_level(logging.ERROR):
        job = enqueueing.enqueue(Probe())
    assert BuildJob.objects.filter(pk=job.pk).exists()
    assert "channel name" in caplog.text


def test_children_that_cannot_be_cancelled_at_once_do_not_make_the_cancel_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = make_job(JobStatus.WAITING_CHILDREN)
    child = make_job(parent=parent)

    def lost(job_id: object) -> bool:
        raise OperationalError("the connection is lost")

    with monkeypatch.context() as broken:
        broken.setattr(families, "cancel_child", lost)
        assert verbs.cancel(parent.pk, actor=ANNA).status == JobStatus.CANCELLED
    child.refresh_from_db()
    assert child.status == JobStatus.PENDING
    recovery.repair_pairs()
    child.refresh_from_db()
    assert child.status == JobStatus.CANCELLED
