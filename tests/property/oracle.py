"""May it be done, and what must it leave behind? Asked of the tables of `states.py`.

What is refused, or comes from a run whose lease is gone, must have changed nothing.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import TypeVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from buildqueue import states
from buildqueue.exceptions import InvalidTransition, LostLeaseError, Refused
from buildqueue.models import BuildJob, JobAction
from buildqueue.queue.context import Context
from buildqueue.states import ActionStatus, JobStatus

from .acts import Act, Run
from .reading import KEPT, digest

REFUSALS = {
    "outcome_unknown",
    "duplicate_job",
    "child_depth",
    "answer_does_not_fit",
    "content_changed",
    "action_expired",
    "already_decided",
}
Row = TypeVar("Row")
numbers = st.integers(min_value=0, max_value=1_000)
names = st.sampled_from(["a", "b"])


def chosen(rows: list[Row], number: int) -> Row | None:
    """Return one of the rows, if there is one."""
    return rows[number % len(rows)] if rows else None


class Oracle(RuleBasedStateMachine):
    """The runs there were, and what is allowed."""

    runs: list[Run]

    def job(self, number: int, wanted: frozenset[JobStatus]) -> BuildJob | None:
        """Return a job, more often than not one in a status that is wanted."""
        jobs = list(BuildJob.objects.order_by("seq"))
        fitting = [job for job in jobs if job.status in wanted]
        return chosen(fitting if number % 4 and fitting else jobs, number)

    def run(self, number: int) -> Run:
        # Backwards: a small number, to which examples shrink, is the newest run.
        return self.runs[-1 - number % len(self.runs)]

    def action(self, number: int, wanted: ActionStatus) -> JobAction | None:
        found = list(JobAction.objects.order_by("created_at"))
        fitting = [action for action in found if action.status == wanted]
        return chosen(fitting if number % 4 and fitting else found, number)

    def refused(self, act: Act, *errors: type[Exception]) -> Exception | None:
        """Do it; return what refused it, which then must have changed nothing."""
        before = digest()
        refusal: Exception | None = None
        try:
            with redirect_stdout(StringIO()):
                act()
        except errors as error:
            note(f"    refused: {type(error).__name__}: {error}")
            refusal = error
        code = getattr(refusal, "code", "")
        if refusal is not None and code != "action_expired":
            assert digest() == before, f"refused by {refusal!r}, and written"
        if isinstance(refusal, Refused):
            assert code in REFUSALS, code
        return refusal

    def verb(self, job: BuildJob, transition: states.Transition, act: Act) -> None:
        """Do what a person does: allowed exactly when the table says so."""
        refusal = self.refused(act, InvalidTransition, Refused)
        if transition.allowed_from(job.status):
            assert not isinstance(refusal, InvalidTransition), refusal
        else:
            assert isinstance(refusal, InvalidTransition), "it is not allowed"
            assert refusal.found == job.status

    def writes(self, run: Run, act: Act, *errors: type[Exception]) -> None:
        """Have a run write: it can exactly while its lease is in force."""
        held, may = run.holds(), run.may_write()
        before, kept = digest(), digest(KEPT)
        try:
            with redirect_stdout(StringIO()):
                act()
        except LostLeaseError:
            assert not may, "a lease that is in force was called lost"
        except errors as error:
            note(f"    refused: {type(error).__name__}: {error}")
        if not held:
            assert digest() == before, "a run without its lease has written"
        elif not may:
            assert digest(KEPT) == kept, "a run whose lease is over has written"

    def adopt(self) -> None:
        """Have a process for each running job, also for one that was claimed and died."""
        known = {run.lease for run in self.runs}
        running = BuildJob.objects.filter(status=JobStatus.IN_PROGRESS)
        for job in running.exclude(lease_id__in=known).order_by("seq"):
            assert job.lease_id is not None
            self.runs.append(Run(Context(job=job, lease_id=job.lease_id)))
