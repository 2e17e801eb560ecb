"""Does everybody lock a job before its action, so that nobody waits for each other?

Found by the chaos test: a run that ends an effect, and a person who takes the job from it
at that moment, were a deadlock, of which the server ended one.
"""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from buildqueue.models import JobAction
from buildqueue.queue import verbs
from buildqueue.queue.context import Context, fencing
from buildqueue.queue.outcomes import Actor
from buildqueue.states import ActionStatus, JobStatus
from tests.support.races import somebody_waits
from tests.support.waiting import wait_until

ANNA = Actor(label="anna")


def test_who_cancels_a_job_whose_effect_is_being_told_waits_for_it(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[BaseException] = []

    def cancel() -> None:
        try:
            verbs.cancel(ctx.job.pk, actor=ANNA)
        except BaseException as error:
            raised.append(error)
        finally:
            connections.close_all()

    person = threading.Thread(target=cancel)
    look = fencing._check_fences

    def meet() -> None:
        """Let the person come after the action was moved, and before the commit."""
        person.start()
        wait_until(somebody_waits, message="nobody waits")
        look()

    def effect(action: JobAction) -> None:
        monkeypatch.setattr(fencing, "_check_fences", meet)

    ctx.propose("mail", {"to": "carl"}, review=False)
    ctx.perform("mail", effect)
    person.join(60)
    assert not raised, raised
    ctx.job.refresh_from_db()
    assert ctx.job.status == JobStatus.CANCELLED
    assert JobAction.objects.get().status == ActionStatus.SUCCEEDED
