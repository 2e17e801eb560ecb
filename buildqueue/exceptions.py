"""What can go wrong, as a tree.

BuildQueueError
├── InvalidTransition    the job is in a state from which this verb does not lead
├── LostLeaseError       the job no longer belongs to this run
├── UnknownKind          no handler is registered for the kind
├── InvalidPayload       the payload does not fit the kind's model
├── DuplicateJob         an open job with the dedupe key exists
├── ResultMissing        the handler said done, the database says otherwise
├── SoftTimeLimit        raised inside a handler that has run for longer than it should
│   └── StepTimeLimit    the same, inside a step
├── HandlerError         raised by a handler that knows whose fault it is
│   ├── TransientError   the outside world: it may work later
│   ├── PermanentError   trying again will not help
│   │   └── NotStorable  what was given cannot be stored as JSON; also a ValueError
│   └── UserError        what the user gave is at fault; the message is for them
├── ActionError          an outside effect did not come about, or nobody knows
│   ├── NotDone          raised by its function: it certainly has not happened
│   ├── ActionRefused    denied, expired or cancelled: it will not happen
│   └── OutcomeUnknown   it may have happened; a person must look, nothing is retried
├── Refused              a request cannot be taken; says what to do
│   └── InvalidOption    what was given to `enqueue` beside the payload is out of range
└── BackendError         the outside world did not do what it should
    ├── Unavailable      try again later: it may work then
    ├── Rejected         trying again will not help: the input is at fault
    └── Cancelled        it was asked to stop

Attributes are the facts, the message is built from them. No Django here: backends
import this module too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID


class BuildQueueError(Exception):
    """The root: catch it to catch everything buildqueue raises on purpose."""


class InvalidTransition(BuildQueueError):
    """The job is in a state from which this verb does not lead; look at it again."""

    code = "wrong_status"

    def __init__(self, job_id: object, verb: str, found: str | None) -> None:
        self.job_id, self.verb, self.found = job_id, verb, found
        state = f"it is {found}" if found else "it does not exist"
        super().__init__(f"cannot {verb} job {job_id}: {state}")


class LostLeaseError(BuildQueueError):
    """The run's lease is over or was revoked; stop, and write nothing more."""

    def __init__(self, job_id: UUID, lease_id: UUID) -> None:
        self.job_id, self.lease_id = job_id, lease_id
        super().__init__(f"lease {lease_id} of job {job_id} is no longer held")


class UnknownKind(BuildQueueError):
    """No handler is registered for the kind; is its app in INSTALLED_APPS?"""

    code = "unknown_kind"

    def __init__(self, kind: str, known: Sequence[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(f"unknown kind {kind!r}; registered kinds: {listed}")


class InvalidPayload(BuildQueueError):
    """The payload does not fit the kind's model; `errors` maps field to problem."""

    code = "invalid_payload"

    def __init__(self, kind: str, errors: Mapping[str, str]) -> None:
        self.kind, self.errors = kind, dict(errors)
        listed = "; ".join(f"{field}: {why}" for field, why in self.errors.items())
        super().__init__(f"payload of kind {kind!r} is not valid: {listed}")


class DuplicateJob(BuildQueueError):
    """An open job with this dedupe key exists: `job_id` tells which."""

    def __init__(self, dedupe_key: str, job_id: UUID | None) -> None:
        self.dedupe_key, self.job_id = dedupe_key, job_id
        super().__init__(f"an open job with dedupe key {dedupe_key!r} exists: {job_id}")


class ResultMissing(BuildQueueError):
    """Raised by a final hook when what "done" should have left behind is not there."""


class SoftTimeLimit(BuildQueueError):
    """Raised inside a handler at its soft limit: time to put things in order."""

    code = "soft_timed_out"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"it has run longer than its soft limit of {seconds:g} s")


class StepTimeLimit(SoftTimeLimit):
    """Raised inside a step that takes longer than it may: nothing of it is kept."""

    code = "step_timed_out"

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(seconds)
        self.name = name
        self.args = (f"step {name!r} has taken longer than its {seconds:g} s",)


class HandlerError(BuildQueueError):
    """A handler says what went wrong; `code` is stable, the message for people."""

    code = "failed"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        self.code = code or type(self).code
        super().__init__(message)


class TransientError(HandlerError):
    """It may work later: tried again, after `delay_seconds` or the kind's backoff."""

    code = "transient"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        delay_seconds: float | None = None,
    ) -> None:
        self.delay_seconds = delay_seconds
        super().__init__(message, code=code)


class PermanentError(HandlerError):
    """Trying again will not help: the job fails."""

    code = "permanent"


class NotStorable(PermanentError, ValueError):
    """What was given cannot be stored: no JSON, too deep, too large; the same each time."""

    code = "not_storable"


class UserError(HandlerError):
    """What the user gave is at fault: the job fails, and the message is for them."""

    code = "user_error"


class ActionError(BuildQueueError):
    """An outside effect did not come about, or nobody knows; `code` is stable."""

    code = "action_failed"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        self.code = code or type(self).code
        super().__init__(message)


class NotDone(ActionError):
    """Raised by an action's function: the effect has certainly not happened."""


class ActionRefused(ActionError):
    """The action was denied, has expired or was cancelled: it will not happen."""

    code = "action_denied"


class OutcomeUnknown(ActionError):
    """The effect may or may not have happened: a person must look and settle it."""

    code = "outcome_unknown"


class Refused(BuildQueueError):
    """A request cannot be taken. `code` is stable, the message says what to do."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 400,
        fields: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        self.code, self.status = code, status
        self.fields, self.extra = dict(fields or {}), dict(extra or {})
        super().__init__(message)


class InvalidOption(Refused, ValueError):
    """What was given beside the payload cannot be stored; `fields` says why, each."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name} {why}" for name, why in faults.items())
        super().__init__("invalid_parameter", listed, fields=faults)


class BackendError(BuildQueueError):
    """The outside world failed; `code` is stable, the message fit for the owner.

    `exit_code` is that of the command that failed, if one did; negative: its signal.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str = "",
        exit_code: int | None = None,
    ) -> None:
        self.code, self.detail, self.exit_code = code, detail, exit_code
        super().__init__(message)


class Unavailable(BackendError):
    """It may work later: the engine retries with backoff."""


class Rejected(BackendError):
    """It will not work with this input: the job fails with the code and reason."""


class Cancelled(BackendError):
    """The call was asked to stop and did."""
