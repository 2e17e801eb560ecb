"""What did the machine find? Kept as plain tests."""

from __future__ import annotations

import pytest

from buildqueue import states
from buildqueue.models import BuildJob
from buildqueue.queue import actions, claiming, enqueueing, transitions
from buildqueue.queue.claiming import Scope
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Cancel,
    Done,
    Outcome,
    Retry,
    Snooze,
    WaitForApproval,
)
from buildqueue.worker import judging
from tests.host.jobs import Probe
from tests.support.turns import holder

pytestmark = pytest.mark.django_db


def _with_an_effect_under_way() -> tuple[BuildJob, Context]:
    """Return a running job one of whose threads has not stored how an effect went."""
    enqueueing.enqueue(Probe())
    [job] = claiming.claim(Scope(), holder())
    assert job.lease_id is not None
    ctx = Context(job=job, lease_id=job.lease_id)
    actions.begin(ctx.propose("mail", {}, review=False), ctx.lease_id)
    return job, ctx


def _report(job: BuildJob, outcome: Outcome) -> BuildJob:
    change = judging.change_of(job, outcome)
    return transitions.apply(job.pk, change, fence=job.lease_id)


@pytest.mark.parametrize(
    "outcome",
    [
        Done(result={"n": 1}),
        Cancel(reason="so"),
        Retry(reason="so"),
        Snooze(delay_seconds=0),
        WaitForApproval(),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_a_job_neither_goes_on_nor_ends_well_whose_run_left_an_effect_under_way(
    outcome: Outcome,
) -> None:
    job, _ = _with_an_effect_under_way()

    ended = _report(job, outcome)

    assert (ended.status, ended.error_code) == ("failed", "outcome_unknown")
    assert ended.result is None
    assert job.runs.get().outcome == "failed"
    assert job.actions.get().status == "outcome_unknown"
    assert job.events.filter(kind=states.OUTCOME_UNKNOWN.name).count() == 1
