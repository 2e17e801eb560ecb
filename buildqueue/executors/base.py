"""What do all executors share? Backends, a work folder, and phases that are told.

A phase is a step of the job: a later attempt skips it when what it left is still there.
Executors never touch the job's row: they answer with an outcome, and what the outcome
means for the domain is the lifecycle's. Whatever they print or raise is masked first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .. import clock, conf
from ..backends.masking import MaskedStream, Masker
from ..backends.processes import is_piece
from ..builds.lifecycle import progress
from ..builds.lifecycle.progress import Fence
from ..exceptions import BackendError, LostLeaseError, Rejected, Unavailable
from ..queue.context import Context
from ..queue.context.steps import Step
from . import host

if TYPE_CHECKING:
    from ..backends.base import Builder, Runtime

LEASE_LOOK_SECONDS = 1.0
RUNTIME_SECONDS = 30.0  # for the runtime of a host to come up
LINES_KEPT = 50  # of a phase, for the reason of its failure
SERVICES = ("buildqueue.executors.services.local_runtime",)


def builder() -> Builder:
    """Return the builder of this host."""
    from ..backends.confinement import detect
    from ..backends.local import LocalBuilder

    accepted = conf.get().local_allow_unconfined
    return LocalBuilder(host.local_root(), detect(accept_none=accepted))


def runtime() -> Runtime:
    """Return the runtime of this host."""
    from ..backends.localruntime.client import LocalRuntime

    return LocalRuntime(host.local_root())


def running_runtime() -> Runtime:
    """Return the runtime of this host once it answers; Unavailable when it does not.

    The worker starts it for a kind that names it among its services.
    """
    found, ends = runtime(), clock.monotonic() + RUNTIME_SECONDS
    while True:
        try:
            found.workloads()
            return found
        except Unavailable:
            if clock.monotonic() > ends:
                raise
            time.sleep(0.1)


def check_target(ctx: Context, agent_id: UUID) -> None:
    """Refuse a payload that names another agent than its job is for.

    Serial key, owner and final hook go by the job's agent; another's stays untouched.
    """
    if ctx.job.agent_id != agent_id:
        raise Rejected(
            "wrong_target",
            "the payload names another agent than the job; ask for a new job",
        )


def work_root() -> Path:
    """Return where the work folders of this host's runs are."""
    return conf.get().data_path() / "work"


@dataclass(slots=True, kw_only=True)
class Run:
    """One attempt at something that is done to a target, an agent or a connector."""

    ctx: Context
    target_id: UUID
    masker: Masker = field(default_factory=lambda: Masker(()))
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    _stream: MaskedStream = field(init=False)

    def __post_init__(self) -> None:
        self._stream = self.masker.stream()

    def log(self, line: str) -> None:
        """Print a line of the job's log, without any secret.

        Of a long line that comes in pieces the masked beginning of a secret waits for
        the piece with the rest of it.
        """
        masked = self._stream.feed(line)
        if not is_piece(line):
            masked += self._stream.flush()
        self.lines.append(masked)
        self.ctx.log(masked)

    def entered(self, name: str) -> None:
        """Told when a phase begins; the build's row says so, too."""

    def failed(self, error: BackendError) -> None:
        """Told when a phase has failed."""

    @contextmanager
    def phase(
        self,
        name: str,
        *,
        valid: Callable[[Any], bool] | None = None,
        again: bool = False,
    ) -> Iterator[Step]:
        """Run a named part, told by timeline, log and build row.

        Its body asks `step.done`: what a finished one has left is in `step.result`.
        """
        with self.ctx.step(name, transaction=False, again=again, valid=valid) as step:
            if step.done:
                yield step
                return
            self.lines.clear()
            self.entered(name)
            try:
                yield step
            except BackendError as error:
                raise self._told(error) from None

    def _told(self, error: BackendError) -> BackendError:
        """Return the error without any secret, told to the build's row."""
        masked = masked_error(error, self.masker)
        self.failed(masked)
        return masked

    def lease_watch(self) -> Callable[[], bool]:
        """Return a check for long waits: raises LostLeaseError, looks once a second."""
        looked = clock.monotonic()

        def look() -> bool:
            nonlocal looked
            if clock.monotonic() - looked >= LEASE_LOOK_SECONDS:
                self.ctx.check_lease()
                looked = clock.monotonic()
            return False

        return look

    @contextmanager
    def ended_unless_healthy(self, used: Runtime, instance_id: UUID) -> Iterator[None]:
        """End the new instance again when what is inside does not go well.

        A process that is killed inside leaves it; the next attempt goes on with it, or
        the target's removal or the host's reconciliation ends it then.
        """
        try:
            yield
        except BaseException:
            with suppress(BackendError):
                used.stop_instance(str(self.target_id), str(instance_id))
            raise


@dataclass(slots=True, kw_only=True)
class BuildRun(Run):
    """One attempt at a build of a target."""

    build_id: UUID
    of_connector: bool = False
    deploying: bool = True  # whether the agent is shown as deploying meanwhile

    @property
    def fence(self) -> Fence:
        """Return what every write of this run carries."""
        return Fence(
            job_id=self.ctx.job.pk,
            lease_id=self.ctx.lease_id,
            build_id=self.build_id,
            target_id=self.target_id,
            of_connector=self.of_connector,
        )

    def entered(self, name: str) -> None:
        """Write the phase on the build's row."""
        progress.enter(self.fence, name, deploying=self.deploying)

    def failed(self, error: BackendError) -> None:
        """Write on the build's row how the phase ended."""
        with suppress(LostLeaseError):
            progress.tell_failure(
                self.fence,
                code=error.code,
                exit_code=error.exit_code,
                lines=self.lines,
            )

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder of this run's own, removed afterwards.

        If the process is killed, the host's next reconciliation removes it.
        """
        from ..backends.trees import remove_tree

        made = work_root() / str(self.ctx.lease_id)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.mkdir(mode=0o700)
        try:
            yield made
        finally:
            remove_tree(made)


def masked_error(error: BackendError, masker: Masker) -> BackendError:
    """Return the error without any secret."""
    said, detail = masker.mask(str(error)), masker.mask(error.detail)
    return type(error)(error.code, said, detail=detail, exit_code=error.exit_code)


def is_work_folder_old(folder: Path, *, seconds: float) -> bool:
    """Tell whether nothing was put into the folder for so long."""
    try:
        changed = folder.stat().st_mtime
    except OSError:
        return False
    return clock.now().timestamp() - changed > seconds
