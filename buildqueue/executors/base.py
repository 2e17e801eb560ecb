"""What do all executors share? Backends, a work folder, and phases that are told.

A phase is a step of the job and the build row's `phase` at once, and begins only while
the lease is held. Executors never touch the job's row: they answer with an outcome, and
what the outcome means for the domain is the lifecycle's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from .. import clock, conf
from ..builds.lifecycle import progress
from ..builds.lifecycle.progress import Fence
from ..exceptions import BackendError, Rejected, Unavailable
from ..queue.context import Context
from . import host

if TYPE_CHECKING:
    from ..backends.base import Builder, Runtime

LEASE_LOOK_SECONDS = 1.0
RUNTIME_SECONDS = 30.0  # for the runtime of a host to come up
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRun:
    """One attempt at a build."""

    ctx: Context
    build_id: UUID
    agent_id: UUID

    @property
    def fence(self) -> Fence:
        """Return what every write of this run carries."""
        return Fence(
            job_id=self.ctx.job.pk,
            lease_id=self.ctx.lease_id,
            build_id=self.build_id,
            agent_id=self.agent_id,
        )

    @property
    def deployment_id(self) -> UUID:
        """Return the id of this attempt's deployment and instance: never another's."""
        return uuid5(self.ctx.lease_id, "deployment")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Run a named part of the build; told by timeline, log and build row."""
        with self.ctx.step(name, transaction=False, again=True):
            progress.enter(self.fence, name)
            yield

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
    def ended_unless_healthy(self, used: Runtime) -> Iterator[None]:
        """End this run's instance again when what is inside does not go well.

        A process that is killed inside leaves it; the next attempt's start, the agent's
        removal or the host's reconciliation ends it then.
        """
        try:
            yield
        except BaseException:
            with suppress(BackendError):
                used.stop_instance(str(self.agent_id), str(self.deployment_id))
            raise


def is_work_folder_old(folder: Path, *, seconds: float) -> bool:
    """Tell whether nothing was put into the folder for so long."""
    try:
        changed = folder.stat().st_mtime
    except OSError:
        return False
    return clock.now().timestamp() - changed > seconds
