"""What can go wrong, as a tree.

BuildQueueError
├── InvalidTransition    the job is in a state from which this verb does not lead
├── LostLeaseError       the job no longer belongs to this run
├── UnknownKind          no handler is registered for the kind
├── InvalidPayload       the payload does not fit the kind's model
├── DuplicateJob         an open job with the dedupe key exists
├── ResultMissing        the handler said done, the database says otherwise
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

    def __init__(self, job_id: UUID, verb: str, found: str | None) -> None:
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

    def __init__(self, kind: str, known: Sequence[str]) -> None:
        self.kind, self.known = kind, tuple(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(f"unknown kind {kind!r}; registered kinds: {listed}")


class InvalidPayload(BuildQueueError):
    """The payload does not fit the kind's model; `errors` maps field to problem."""

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
    """The outside world failed; `code` is stable, the message fit for the owner."""

    def __init__(self, code: str, message: str, *, detail: str = "") -> None:
        self.code, self.detail = code, detail
        super().__init__(message)


class Unavailable(BackendError):
    """It may work later: the engine retries with backoff."""


class Rejected(BackendError):
    """It will not work with this input: the job fails with the code and reason."""


class Cancelled(BackendError):
    """The call was asked to stop and did."""
