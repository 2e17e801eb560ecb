"""How is a followed branch or tag looked at? The remote is asked, then the row is written.

The remote is asked outside any transaction, and again by each attempt. What follows
from its answer is one step: an attempt that dies before its commit has done nothing,
and one that dies after it is followed by one that finds the step done. A check that
fails is not tried again by the queue: its watch waits, and is looked at again.
"""

from __future__ import annotations

from .. import conf
from ..builds import gitaccess, secrets, watchchecks
from ..builds.watchpayload import WatchCheck
from ..exceptions import BackendError, LostLeaseError
from ..models import BuildJob, SourceWatch
from ..queue import database
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.limits import Limits
from ..queue.outcomes import Cancel, Done, Fail
from ..states import ErrorClass
from . import base

SPARE_SECONDS = 60.0  # beside what the remote may take
MEMORY_BYTES = 512 * 1024 * 1024
POINTLESS = "the watch is paused, or gone with its agent"


@handler(
    "watch_check",
    payload=WatchCheck,
    isolated=True,  # what it decrypts dies with its process
    limits=Limits(
        time_seconds=conf.get().git_timeout_seconds + SPARE_SECONDS,
        memory_bytes=MEMORY_BYTES,
    ),
    on_final=watchchecks.on_final,
)
def watch_check(ctx: Context, payload: WatchCheck) -> Done | Fail | Cancel:
    """See where the branch or tag is, and act when it has moved."""
    watch = watchchecks.active(payload.watch_id)
    if watch is None:
        return Cancel(reason=POINTLESS)
    try:
        with ctx.step("look", transaction=False, again=True) as step:
            commit = step.result = _commit_of(ctx, watch)
    except BackendError as error:
        return Fail(reason=str(error), code=error.code, blame=ErrorClass.TRANSIENT)
    with ctx.step("act") as step:
        if not step.done:
            _lock_job(ctx)
            step.result = watchchecks.found(watch.pk, commit)
    return Done(result=step.result) if step.result else Cancel(reason=POINTLESS)


def _commit_of(ctx: Context, watch: SourceWatch) -> str:
    """Ask the remote, with the token that the agent's owner has left for it."""
    from ..backends import git, masking

    token = None
    if watch.secret_name:
        token = secrets.read_secret(watch.agent.owner_id, watch.secret_name)
    ctx.log(f"asking {watch.git_url} for {watch.ref}")
    masker = masking.Masker([token] if token else [])
    try:
        commit = git.resolve_ref(
            watch.git_url,
            watch.ref,
            token,
            access=gitaccess.access(),
            limits=gitaccess.limits(),
            cancelled=lambda: ctx.cancelled,
        )
    except BackendError as error:
        raise base.masked_error(error, masker) from None
    ctx.log(f"it is at {commit}")
    return commit


def _lock_job(ctx: Context) -> None:
    """Lock the job before its watch: who ends the job does so in that order, too."""
    jobs = BuildJob.objects.using(database.alias()).select_for_update(no_key=True)
    mine = jobs.filter(pk=ctx.job.pk, lease_id=ctx.lease_id)
    if mine.values_list("pk").first() is None:
        raise LostLeaseError(ctx.job.pk, ctx.lease_id)
