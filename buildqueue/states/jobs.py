"""Which statuses has a job, and which change may follow which? Its runs, actions, events
and notices stand here, too.

Choices, CHECK constraints, guards, buttons of the admin and the table in
`docs/explanation/states.md` are all derived from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class JobStatus(TextChoices):
    """The ten stored statuses of a job."""

    PENDING = "pending", _("pending")  # due now, waits for a worker
    SCHEDULED = "scheduled", _("scheduled")  # waits for its due time
    IN_PROGRESS = "in_progress", _("in progress")  # a run holds its lease
    WAITING_INPUT = "waiting_input", _("waiting for input")  # a person must answer
    WAITING_APPROVAL = "waiting_approval", _("waiting for approval")
    WAITING_CHILDREN = "waiting_children", _("waiting for children")
    PAUSED = "paused", _("paused")  # an operator holds it back
    DONE = "done", _("done")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")


WAITING = frozenset(
    {JobStatus.WAITING_INPUT, JobStatus.WAITING_APPROVAL, JobStatus.WAITING_CHILDREN}
)
FINAL = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED})
OPEN = frozenset(JobStatus) - FINAL
UNCLAIMED = frozenset({JobStatus.PENDING, JobStatus.SCHEDULED})


@dataclass(frozen=True, slots=True)
class Transition:
    """One named change of a job's status."""

    name: str
    sources: frozenset[JobStatus]  # empty: the row is made by it
    targets: frozenset[JobStatus]
    by: str  # who may: anyone, slot, worker, engine, duty, operator
    summary: str

    @property
    def fenced(self) -> bool:
        """Whether the writer must prove that it still holds the lease."""
        return self.by == "worker"

    def allowed_from(self, status: str) -> bool:
        """Tell whether a job in this status can take the transition."""
        return status in self.sources


def _to(*statuses: JobStatus) -> frozenset[JobStatus]:
    return frozenset(statuses)


_S = JobStatus
_RUNNING = _to(_S.IN_PROGRESS)

ENQUEUE = Transition(
    "enqueue", frozenset(), UNCLAIMED, "anyone", "the job is put into the queue"
)
PROMOTE = Transition(
    "promote", _to(_S.SCHEDULED), _to(_S.PENDING), "duty", "its due time has come"
)
CLAIM = Transition(
    "claim", _to(_S.PENDING), _RUNNING, "slot", "a worker takes it and gets a lease"
)
FINISH = Transition(
    "finish", _RUNNING, _to(_S.DONE), "worker", "the handler is done with it"
)
FAIL = Transition(
    "fail", _RUNNING, _to(_S.FAILED), "worker", "it failed and is not tried again"
)
RESULT_MISSING = Transition(
    "result_missing",
    _to(_S.DONE),
    _to(_S.FAILED),
    "engine",
    "it said done, but its result is not in the database",
)
RETRY_LATER = Transition(
    "retry_later", _RUNNING, _to(_S.SCHEDULED), "worker", "it failed: tried again later"
)
SNOOZE = Transition(
    "snooze", _RUNNING, _to(_S.SCHEDULED), "worker", "the handler asks to come later"
)
HAND_BACK = Transition(
    "hand_back",
    _RUNNING,
    _to(_S.PENDING),
    "worker",
    "the worker stops: nothing counted",
)
WITHDRAW = Transition(
    "withdraw",
    _RUNNING,
    _to(_S.CANCELLED),
    "worker",
    "the handler says that the work has become pointless",
)
WAIT = Transition("wait", _RUNNING, WAITING, "worker", "it waits and frees its slot")
WAKE = Transition("wake", WAITING, _to(_S.PENDING), "anyone", "what it waited for came")
RESCUE = Transition(
    "rescue",
    _RUNNING,
    _to(_S.PENDING, _S.FAILED),
    "duty",
    "its run died or went silent",
)
OUTCOME_UNKNOWN = Transition(
    "outcome_unknown",
    _RUNNING,
    _to(_S.FAILED),
    "engine",
    "its run ended while an outside effect was under way: a person must look",
)
CHILD_FAILED = Transition(
    "child_failed",
    _to(_S.WAITING_CHILDREN),
    _to(_S.FAILED),
    "engine",
    "one of its children did not end well, and it wanted all or nothing",
)
PAUSE = Transition(
    "pause",
    OPEN - {_S.PAUSED},
    _to(_S.PAUSED),
    "operator",
    "held back; a running process is ended",
)
RESUME = Transition(
    "resume", _to(_S.PAUSED), UNCLAIMED | WAITING, "operator", "goes on where it was"
)
RESCHEDULE = Transition(
    "reschedule", UNCLAIMED, UNCLAIMED, "operator", "its due time is changed"
)
CANCEL = Transition(
    "cancel", OPEN, _to(_S.CANCELLED), "operator", "stopped for good; process ended"
)
RELEASE = Transition(
    "release",
    _RUNNING,
    _to(_S.PENDING),
    "operator",
    "taken from its worker, runs again",
)
FORCE_FAIL = Transition(
    "force_fail", OPEN, _to(_S.FAILED), "operator", "declared failed; process ended"
)
RETRY = Transition(
    "retry",
    _to(_S.FAILED, _S.CANCELLED),
    _to(_S.PENDING),
    "operator",
    "runs again; history is kept, the allowance raised",
)

TRANSITIONS: dict[str, Transition] = {
    t.name: t
    for t in (
        ENQUEUE,
        PROMOTE,
        CLAIM,
        FINISH,
        FAIL,
        RESULT_MISSING,
        RETRY_LATER,
        SNOOZE,
        HAND_BACK,
        WITHDRAW,
        WAIT,
        WAKE,
        RESCUE,
        OUTCOME_UNKNOWN,
        CHILD_FAILED,
        PAUSE,
        RESUME,
        RESCHEDULE,
        CANCEL,
        RELEASE,
        FORCE_FAIL,
        RETRY,
    )
}


class RunOutcome(TextChoices):
    """How an attempt ended; an open run has none."""

    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    INTERRUPTED = "interrupted", _("interrupted")  # a person's verb took its lease
    LOST = "lost", _("lost")  # the lease ran out or the worker died
    CRASHED = "crashed", _("crashed")  # its process died by itself
    TIMED_OUT = "timed_out", _("timed out")
    RELEASED = "released", _("released")  # the worker stopped
    WAITING = "waiting", _("waiting")  # snoozed or waits for something


class EventKind(TextChoices):
    """What a timeline event tells; the names of transitions, and these."""

    STEP_STARTED = "step_started", _("step started")
    STEP_FINISHED = "step_finished", _("step finished")
    STEP_FAILED = "step_failed", _("step failed")
    STEP_SKIPPED = "step_skipped", _("step skipped")  # an earlier attempt has done it
    CHECKPOINT = "checkpoint", _("checkpoint")
    CHILD_SPAWNED = "child_spawned", _("child enqueued")
    ANSWERED = "answered", _("answered")
    PRIORITY_CHANGED = "priority_changed", _("priority changed")
    ACTION_PROPOSED = "action_proposed", _("action proposed")
    ACTION_APPROVED = "action_approved", _("action approved")
    ACTION_DENIED = "action_denied", _("action denied")
    ACTION_EXPIRED = "action_expired", _("action expired")
    ACTION_CANCELLED = "action_cancelled", _("action cancelled")
    ACTION_EXECUTING = "action_executing", _("action under way")
    ACTION_SUCCEEDED = "action_succeeded", _("action succeeded")
    ACTION_FAILED = "action_failed", _("action failed")
    ACTION_OUTCOME_UNKNOWN = "action_outcome_unknown", _("action of unknown outcome")
    ACTION_REOPENED = "action_reopened", _("action to be reviewed anew")
    ACTION_SETTLED = "action_settled", _("action settled")
    RUN_ENDED = "run_ended", _("process ended")
    FINAL_HOOK_FAILED = "final_hook_failed", _("final hook failed")
    NOTE = "note", _("note")


class ErrorClass(TextChoices):
    """Whose fault an attempt's error is; tells whether trying again can help."""

    TRANSIENT = "transient", _("transient")  # the outside world: it may pass
    PERMANENT = "permanent", _("permanent")  # trying again will not help
    USER = "user", _("the user's")  # what the user gave is at fault
    UNKNOWN = "unknown", _("unknown")  # nobody expected it; tried again


class ActionStatus(TextChoices):
    """Where an outside effect stands that must not happen twice."""

    AWAITING_REVIEW = "awaiting_review", _("awaiting review")
    APPROVED = "approved", _("approved")  # may be executed; nothing has happened yet
    EXECUTING = "executing", _("executing")  # a run does it now
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")  # known not to have happened
    OUTCOME_UNKNOWN = "outcome_unknown", _("outcome unknown")  # a person must look
    DENIED = "denied", _("denied")
    CANCELLED = "cancelled", _("cancelled")
    EXPIRED = "expired", _("expired")


_A = ActionStatus
ACTION_FLOW: dict[ActionStatus, frozenset[ActionStatus]] = {
    # status -> the statuses it may follow
    # A person who retries the job has what was turned down asked anew.
    _A.AWAITING_REVIEW: frozenset({_A.DENIED, _A.EXPIRED, _A.CANCELLED}),
    _A.APPROVED: frozenset({_A.AWAITING_REVIEW, _A.EXPIRED, _A.CANCELLED}),
    # What failed is known not to have happened: it may be tried again.
    _A.EXECUTING: frozenset({_A.APPROVED, _A.FAILED}),
    _A.SUCCEEDED: frozenset({_A.EXECUTING, _A.OUTCOME_UNKNOWN}),
    _A.FAILED: frozenset({_A.EXECUTING, _A.OUTCOME_UNKNOWN}),
    _A.OUTCOME_UNKNOWN: frozenset({_A.EXECUTING}),
    _A.DENIED: frozenset({_A.AWAITING_REVIEW}),
    _A.CANCELLED: frozenset({_A.AWAITING_REVIEW, _A.APPROVED}),
    # What failed was approved for so long only.
    _A.EXPIRED: frozenset({_A.AWAITING_REVIEW, _A.APPROVED, _A.FAILED}),
}


class NoticeStatus(TextChoices):
    """Where a notice to the outside stands."""

    PENDING = "pending", _("pending")  # to be sent, or sent again
    SENT = "sent", _("sent")
    FAILED = "failed", _("failed")  # given up; a person may have it sent again


class WorkerStatus(TextChoices):
    """The state of a worker process, as last told by itself or seen by others."""

    RUNNING = "running", _("running")
    DRAINING = "draining", _("draining")
    STOPPED = "stopped", _("stopped")
    LOST = "lost", _("lost")
