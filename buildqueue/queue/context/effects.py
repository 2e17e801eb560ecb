"""How does a run bring about an effect outside that must not happen twice?

    ctx.propose("mail", {"to": "anna"}, title="Mail to Anna")
    ...
    ctx.perform("mail", send)

The action is a row before the effect is: "executing" is committed, then the function is
called, then its receipt is stored. If the process dies in between, nobody knows, and the
engine says so: the action becomes `outcome_unknown`, the job fails, and neither is run
again until a person has looked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ... import conf
from ...exceptions import (
    ActionRefused,
    LostLeaseError,
    NotDone,
    OutcomeUnknown,
    PermanentError,
    Refused,
    Rejected,
)
from ...models import JobAction
from ...states import ActionStatus
from .. import actions, database, storing
from .fencing import fenced, fenced_job_first, in_transaction
from .parts import Run

Effect = Callable[[JobAction], Mapping[str, Any] | None]
ENDED = {
    ActionStatus.DENIED: "action_denied",
    ActionStatus.EXPIRED: "action_expired",
    ActionStatus.CANCELLED: "action_cancelled",
}


class Effects:
    """The outside effects of a run."""

    def propose(
        self: Run,
        key: str,
        content: Mapping[str, Any],
        *,
        title: str = "",
        review: bool = True,
        expires_in: timedelta | None = None,
    ) -> JobAction:
        """Return the job's action of this key, made now unless an attempt has made it.

        `content` is what a person reviews and what the effect is made from. Another
        content under a key is refused: PermanentError with `action_changed`.
        """
        seconds = conf.get().action_expiry_seconds
        self.check_lease()
        with fenced(self):
            return actions.propose(
                self.job,
                key,
                content,
                title=title or key,
                review=review,
                expires_in=timedelta(seconds=seconds)
                if expires_in is None
                else expires_in,
                lease=self.lease_id,
            )

    def perform(self: Run, key: str, function: Effect) -> dict[str, Any]:
        """Bring the effect about, unless it has been, and return its receipt.

        The function gets the action (its id is a good idempotency key) and returns a
        JSON receipt. It raises NotDone, or Rejected, when the effect has certainly not
        happened; anything else it raises leaves that open: OutcomeUnknown.
        ActionRefused when the action was denied, has expired or was cancelled.
        """
        if in_transaction(self):
            raise PermanentError(
                "an effect outside cannot be rolled back: perform it outside of a step "
                "and of any transaction",
                code="effect_in_transaction",
            )
        self.check_lease()
        action = _to_perform(self, key)
        if action.status == ActionStatus.SUCCEEDED:
            return dict(action.receipt or {})
        self.log(f"==> {action.title}")
        with _own_move(self):
            action = actions.begin(action, self.lease_id)
        try:
            receipt = storing.mapping(function(action) or {}, "a receipt")
        except (NotDone, Rejected) as error:
            _end(self, action, ActionStatus.FAILED, error=str(error))
            raise
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
            _end(self, action, ActionStatus.OUTCOME_UNKNOWN, error=said)
            if isinstance(error, LostLeaseError):
                raise
            raise OutcomeUnknown(
                f"{action.title}: whether it happened is not known ({said})"
            ) from error
        _end(self, action, ActionStatus.SUCCEEDED, receipt=receipt)
        return receipt


@contextmanager
def _own_move(run: Run) -> Iterator[None]:
    """Let a run move its action; who took the lease has said what became of it."""
    try:
        with fenced_job_first(run):
            yield
    except Refused:
        run.check_lease()
        raise


def _to_perform(run: Run, key: str) -> JobAction:
    action = actions.find(run.job.pk, key)
    if action is None:
        raise PermanentError(f"no action {key!r} was proposed", code="not_proposed")
    if actions.is_over_time(action):
        with fenced_job_first(run):
            action = actions.expire(action)
    if code := ENDED.get(ActionStatus(action.status)):
        why = f": {action.reason}" if action.reason else ""
        label = ActionStatus(action.status).label
        raise ActionRefused(f"{action.title} was {label}{why}", code=code)
    if action.status in {ActionStatus.OUTCOME_UNKNOWN, ActionStatus.EXECUTING}:
        raise OutcomeUnknown(f"{action.title}: whether it happened is not known")
    if action.status == ActionStatus.AWAITING_REVIEW:
        raise PermanentError(
            f"{action.title} is not approved; return WaitForApproval() first",
            code="not_approved",
        )
    return action


def _end(
    run: Run,
    action: JobAction,
    status: ActionStatus,
    *,
    receipt: dict[str, Any] | None = None,
    error: str = "",
) -> None:
    """Store what became of it; a lost connection is tried again while the lease lives."""

    def store() -> None:
        with _own_move(run):
            actions.end(action, status, run.lease_id, receipt=receipt, error=error)

    until = time.monotonic() + 2 * conf.get().lease_seconds
    database.keep_trying(store, until=until, what="storing what became of an action")
