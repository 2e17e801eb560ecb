"""Is a change of a job wholly there or not at all, wherever its process is killed?

Each act is done again and again by a process that gets a real SIGKILL before its first,
second, third … statement or commit, until one gets through. After each kill the tables are
as they were, or as they are to be; what is made of several transactions is made whole by
the duty that looks for halves.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from buildqueue import states
from buildqueue.models import (
    BuildJob,
    Checkpoint,
    JobAction,
    JobEvent,
    JobProgress,
    JobRun,
)
from buildqueue.queue import (
    actions,
    claiming,
    enqueueing,
    records,
    recovery,
    retention,
    transitions,
    verbs,
)
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Actor,
    Cause,
    Done,
    Retry,
    WaitForApproval,
    WaitForChildren,
    WaitForInput,
)
from buildqueue.queue.questions import Field
from buildqueue.states import ActionStatus, JobStatus, RunOutcome
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.support.decisions import make_action
from tests.support.jobs import fresh, kinds
from tests.support.killing import killed_before
from tests.support.turns import holder, report

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")
DIED = Cause(
    outcome=RunOutcome.CRASHED, code="killed_by_signal", message="it was killed"
)
MOST = 200  # statements of one act
Act = Callable[[], object]
Holds = Callable[[], object]


def _tables() -> dict[str, list[Any]]:
    return {
        model._meta.label: sorted(map(str, model._default_manager.values_list()))
        for model in [*apps.get_app_config("buildqueue").get_models(), Effect]
        if model._meta.managed
    }


def _all_or_nothing(act: Act, done: Holds) -> None:
    """Kill it before each statement: as before, or done."""
    before = _tables()
    for number in range(1, MOST):
        if not killed_before(number, act):
            assert number > 1, "it was never killed"
            assert done(), "it got through and is not as it should be"
            return
        if _tables() != before:
            assert done(), f"half done when killed before statement {number}"
            return  # committed: what follows are hints
    raise AssertionError("it never ends")


def _repaired(make: Callable[[], Act], done: Holds) -> None:
    """Kill what is made of several transactions; the duty makes the rest."""
    for number in range(1, MOST):
        act = make()
        killed = killed_before(number, act)
        if _status_of_first() != JobStatus.WAITING_CHILDREN:
            recovery.repair_pairs()
            assert done(), f"not made whole when killed before statement {number}"
        if not killed:
            assert done()
            return
    raise AssertionError("it never ends")


def _status_of_first() -> str:
    return BuildJob.objects.filter(parent=None).latest("seq").status


def _report(job: BuildJob, outcome: Any) -> Act:
    return lambda: report(job, outcome)


def _ended(job: BuildJob, status: str, outcome: str | None, event: str) -> Holds:
    def holds() -> bool:
        run = JobRun.objects.get(job_id=job.pk)
        return (
            fresh(job).status == status
            and run.outcome == outcome
            and kinds(job) == [event]
        )

    return holds


def _asks(job: BuildJob) -> None:
    report(job, WaitForInput(question="How many?", fields={"n": Field(type="integer")}))


# -- enqueue and claim ---------------------------------------------------------------


def test_enqueue() -> None:
    _all_or_nothing(
        lambda: enqueueing.enqueue(Probe()),
        lambda: kinds(BuildJob.objects.get()) == ["enqueue"],
    )


def test_enqueue_in_place_of_another() -> None:
    old = enqueueing.enqueue(Probe(), dedupe_key="one")

    def done() -> bool:
        new = BuildJob.objects.exclude(pk=old.pk).get()
        return (fresh(old).status, new.status) == ("cancelled", "pending")

    def act() -> object:
        return enqueueing.enqueue(Probe(), dedupe_key="one", on_duplicate="replace")

    for number in range(1, MOST):
        if not killed_before(number, act):
            break
        # Two transactions: the old one may be gone before the new one is there.
        assert fresh(old).status in {"pending", "cancelled"}
        assert BuildJob.objects.filter(completed_at=None).count() <= 1
    assert done()


def test_claim() -> None:
    job = enqueueing.enqueue(Probe())
    _all_or_nothing(
        lambda: claiming.claim(claiming.Scope(), holder()),
        lambda: (
            fresh(job).attempt == 1
            and JobRun.objects.get().pk == fresh(job).lease_id
            and kinds(job) == ["enqueue", "claim"]
        ),
    )


def test_promote() -> None:
    moment = timezone.now() - timedelta(hours=1)
    job = make_job(JobStatus.SCHEDULED, due_at=moment)
    _all_or_nothing(
        transitions.promote_due,
        lambda: fresh(job).status == "pending" and kinds(job) == ["promote"],
    )


# -- reports -------------------------------------------------------------------------


def test_finish_with_its_final_hook(add_kind: AddKind) -> None:
    def hook(job: BuildJob) -> None:
        Effect.objects.create(label="hooked")

    kind = add_kind(on_final=hook)
    job = make_job(JobStatus.IN_PROGRESS, payload={"kind": kind})
    ended = _ended(job, "done", "succeeded", "finish")
    _all_or_nothing(
        _report(job, Done(result={"a": 1})),
        lambda: ended() and Effect.objects.count() == 1,
    )


def test_retry_later() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    _all_or_nothing(
        _report(job, Retry(reason="again")),
        _ended(job, "scheduled", "failed", "retry_later"),
    )


def test_wait_for_input() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    ended = _ended(job, "waiting_input", "waiting", "wait")
    _all_or_nothing(
        lambda: _asks(job),
        lambda: ended() and JobProgress.objects.get().waits_for["for"] == "input",
    )


def test_wait_that_is_over_before_it_begins() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    make_action(job, ActionStatus.APPROVED)
    _all_or_nothing(
        _report(job, WaitForApproval()),
        lambda: fresh(job).status == "pending" and kinds(job) == ["wait", "wake"],
    )


def test_the_last_child_wakes_its_parent() -> None:
    parent = make_job(JobStatus.IN_PROGRESS)
    child = make_job(JobStatus.IN_PROGRESS, parent=parent)
    _report(parent, WaitForChildren())()
    _all_or_nothing(
        _report(child, Done()),
        lambda: (
            fresh(child).status == "done"
            and fresh(parent).status == "pending"
            and kinds(parent) == ["wait", "wake"]
        ),
    )


def test_a_failed_child_fails_its_parent() -> None:
    parent = make_job(JobStatus.IN_PROGRESS)
    child = make_job(JobStatus.IN_PROGRESS, parent=parent, max_attempts=1)
    _report(parent, WaitForChildren(on_failure="fail"))()
    _all_or_nothing(
        _report(child, Retry(reason="no")),
        lambda: (
            fresh(child).status == "failed"
            and fresh(parent).error_code == "child_failed"
            and kinds(parent) == ["wait", "child_failed"]
        ),
    )


# -- rescue --------------------------------------------------------------------------


def test_rescue() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    _all_or_nothing(
        lambda: recovery.rescue([job], DIED),
        _ended(job, "pending", "crashed", "rescue"),
    )


def test_rescue_in_the_middle_of_an_effect_outside() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    action = make_action(job, ActionStatus.EXECUTING)

    def done() -> bool:
        action.refresh_from_db()
        found = fresh(job)
        return (found.status, found.error_code, action.status) == (
            "failed",
            "outcome_unknown",
            "outcome_unknown",
        )

    _all_or_nothing(lambda: recovery.rescue([job], DIED), done)


def test_a_final_hook_tried_again(add_kind: AddKind) -> None:
    kind = add_kind(on_final=lambda job: Effect.objects.create(label="late"))
    job = make_job(JobStatus.DONE, payload={"kind": kind}, hook_pending=True)
    _all_or_nothing(
        lambda: transitions.retry_final_hook(job.pk),
        lambda: Effect.objects.count() == 1 and not fresh(job).hook_pending,
    )


# -- steps and memory ----------------------------------------------------------------


def _context(job: BuildJob) -> Context:
    from django.db import connection

    assert job.lease_id is not None
    session = connection.copy()
    session.connect()
    return Context(job=job, lease_id=job.lease_id, session=session)


def test_a_step() -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    def act() -> None:
        with _context(job).step("charge") as step:
            Effect.objects.create(label="charged")
            step.result = 1

    for number in range(1, MOST):
        killed = killed_before(number, act)
        effects, steps = Effect.objects.count(), Checkpoint.objects.count()
        assert (effects, steps) in {(0, 0), (1, 1)}, number
        assert kinds(job).count("step_finished") == steps
        if not killed:
            break
        if steps:
            return
    assert effects == 1


def test_a_child_is_enqueued_with_the_checkpoint_that_remembers_it() -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    def act() -> object:
        return _context(job).spawn("a", Probe())

    for number in range(1, MOST):
        killed = killed_before(number, act)
        children = BuildJob.objects.filter(parent=job).count()
        assert Checkpoint.objects.count() == children <= 1
        if not killed:
            break
    assert children == 1


def test_compare_and_swap() -> None:
    job = make_job()
    records.ensure(job.pk)
    _all_or_nothing(
        lambda: records.compare_and_swap(job.pk, {}, {"n": 1}),
        lambda: JobProgress.objects.get().state == {"n": 1},
    )


# -- people --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start", "end", "outcome"),
    [
        ("cancel", "in_progress", "cancelled", None),
        ("pause", "in_progress", "paused", None),
        ("release", "in_progress", "pending", None),
        ("force_fail", "in_progress", "failed", None),
    ],
)
def test_a_verb_on_a_running_job(
    name: str, start: str, end: str, outcome: str | None
) -> None:
    job = make_job(start)
    _all_or_nothing(
        lambda: verbs.VERBS[name][0](job.pk, actor=ANNA, reason="because"),
        _ended(job, end, outcome, name),
    )


@pytest.mark.parametrize(("name", "start"), [("resume", "paused"), ("retry", "failed")])
def test_a_verb_that_lets_a_job_go_on(name: str, start: str) -> None:
    job = make_job(start)
    _all_or_nothing(
        lambda: verbs.VERBS[name][0](job.pk, actor=ANNA, reason="because"),
        lambda: fresh(job).status == "pending" and kinds(job) == [name],
    )


def test_an_answer() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    _asks(job)
    _all_or_nothing(
        lambda: verbs.answer(job.pk, values={"n": 3}, actor=ANNA),
        lambda: (
            fresh(job).status == "pending"
            and JobProgress.objects.get().answers == {"n": 3}
            and JobProgress.objects.get().waits_for is None
            and kinds(job) == ["wait", "answered", "wake"]
        ),
    )


def test_another_priority() -> None:
    job = make_job()
    _all_or_nothing(
        lambda: verbs.change_priority(job.pk, priority=5, actor=ANNA),
        lambda: fresh(job).priority == 5 and kinds(job) == ["priority_changed"],
    )


def test_another_due_time() -> None:
    job = make_job()
    later = timezone.now() + timedelta(hours=1)
    _all_or_nothing(
        lambda: verbs.change_due(job.pk, due_at=later, actor=ANNA),
        lambda: fresh(job).status == "scheduled" and kinds(job) == ["reschedule"],
    )


@pytest.mark.parametrize("decide", [actions.approve, actions.deny])
def test_a_decision(decide: Callable[..., JobAction]) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    action = make_action(job, ActionStatus.AWAITING_REVIEW)
    _report(job, WaitForApproval())()
    _all_or_nothing(
        lambda: decide(
            action.pk, content_hash=action.content_hash, actor=ANNA, reason="because"
        ),
        lambda: (
            fresh(job).status == "pending"
            and JobAction.objects.get().decided_by == "anna"
            and len(kinds(job)) == 3
        ),
    )


def test_settling() -> None:
    job = make_job(JobStatus.FAILED)
    action = make_action(job, ActionStatus.OUTCOME_UNKNOWN)
    _all_or_nothing(
        lambda: actions.settle(action.pk, happened=True, actor=ANNA, reason="seen"),
        lambda: (
            JobAction.objects.get().status == "succeeded"
            and kinds(job) == ["action_settled"]
        ),
    )


def test_an_expiry() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    make_action(job, ActionStatus.AWAITING_REVIEW)
    _report(job, WaitForApproval())()
    JobAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    _all_or_nothing(
        actions.expire_old,
        lambda: (
            fresh(job).status == "pending"
            and JobAction.objects.get().status == "expired"
        ),
    )


# -- of several transactions ---------------------------------------------------------


def test_a_cancel_goes_down_the_tree() -> None:
    def make() -> Act:
        parent = make_job(JobStatus.IN_PROGRESS)
        for _ in range(2):
            child = make_job(parent=parent)
            make_job(parent=child)
        _report(parent, WaitForChildren())()
        return lambda: verbs.cancel(parent.pk, actor=ANNA)

    def done() -> bool:
        recovery.repair_pairs()  # grandchildren: one generation a look
        recovery.repair_pairs()
        tops = BuildJob.objects.filter(status="cancelled", parent=None)
        families = BuildJob.objects.filter(parent__in=tops)
        return not families.exclude(status="cancelled").exists()

    _repaired(make, done)


def test_old_jobs_leave_in_whole_chunks() -> None:
    long_ago = timezone.now() - timedelta(days=1000)
    for _ in range(3):
        job = make_job(JobStatus.DONE, created_at=long_ago, completed_at=long_ago)
        transitions.record(job, states.FINISH.name)
    for number in range(1, MOST):
        killed = killed_before(number, retention.prune)
        assert BuildJob.objects.count() in {0, 3}
        assert JobEvent.objects.count() == BuildJob.objects.count()
        if not killed:
            break
    assert BuildJob.objects.count() == 0


def test_of_many_retried_those_so_far_are_and_the_rest_untouched() -> None:
    seen = set()
    for number in range(1, MOST):
        jobs = [make_job(JobStatus.FAILED) for _ in range(3)]
        ids = [job.pk for job in jobs]

        def act(ids: Any = ids) -> object:
            return verbs.retry_many(ids, actor=ANNA, reason="again")

        killed = killed_before(number, act)
        done = [fresh(job).status == "pending" for job in jobs]
        assert done == sorted(done, reverse=True)
        assert [kinds(job) == ["retry"] for job in jobs] == done
        seen.add(sum(done))
        if not killed:
            break
    assert seen == {0, 1, 2, 3}
