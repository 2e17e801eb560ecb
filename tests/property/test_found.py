"""What did the machine find? Kept as plain tests."""

from __future__ import annotations

import pytest

from buildqueue import states
from buildqueue.models import BuildJob
from buildqueue.queue import actions, claiming, enqueueing, transitions
from buildqueue.queue.claiming import Scope
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Done, Outcome, Retry, Snooze, WaitForApproval
from buildqueue.worker import runner
from tests.host.jobs import Probe
from tests.integration.queue.conftest import holder

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
    change = runner.change_of(job, outcome)
    return transitions.apply(job.pk, change, fence=job.lease_id)


@pytest.mark.parametrize(
    "outcome",
    [Retry(reason="so"), Snooze(delay_seconds=0), WaitForApproval()],
    ids=lambda outcome: type(outcome).__name__,
)
def test_a_job_does_not_go_on_whose_run_left_an_effect_under_way(
    outcome: Outcome,
) -> None:
    job, _ = _with_an_effect_under_way()

    ended = _report(job, outcome)

    assert (ended.status, ended.error_code) == ("failed", "outcome_unknown")
    assert job.actions.get().status == "outcome_unknown"
    assert job.events.filter(kind=states.OUTCOME_UNKNOWN.name).count() == 1


def test_a_job_that_is_done_says_of_an_effect_under_way_that_nobody_knows() -> None:
    job, _ = _with_an_effect_under_way()

    ended = _report(job, Done())

    assert ended.status == "done"
    assert job.actions.get().status == "outcome_unknown"
