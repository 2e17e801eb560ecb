"""What happens when a job ends? Its kind's final hook, in the ending's transaction.

A hook that raises is recorded and tried again by a duty; it never keeps the job from
ending.
"""

from __future__ import annotations

import logging

from ... import states
from ...exceptions import ResultMissing
from ...models import BuildJob, JobRun
from ...states import EventKind, JobStatus, RunOutcome
from .. import database, handlers, logs
from .timeline import Change, record

logger = logging.getLogger(__name__)


def run_final_hook(job: BuildJob) -> BuildJob:
    """Run the kind's final hook; one that raises never keeps the job from ending.

    "Done" whose result is not in the database becomes failed with `result_missing`, and
    the hook is called again for the failed job.
    """
    fault = _call_final_hook(job)
    if isinstance(fault, ResultMissing) and job.status == JobStatus.DONE:
        return run_final_hook(_fail_for_missing_result(job, str(fault)))
    if fault is not None:
        _remember_failed_hook(job, fault)
    elif job.hook_pending:
        BuildJob.objects.using(database.alias()).filter(pk=job.pk).update(
            hook_pending=False
        )
        job.hook_pending = False
    return job


def _call_final_hook(job: BuildJob) -> Exception | None:
    """Call the hook in a savepoint and return what it raised."""
    found = handlers.hooks_of(job.kind)
    if found is None or found.on_final is None:
        return None
    try:
        with database.atomic():
            found.on_final(job)
    except Exception as error:  # a hook of any host: recorded, retried by a duty
        return error
    return None


def _remember_failed_hook(job: BuildJob, fault: Exception) -> None:
    """Mark the job for the duty; told once, however often the hook raises again."""
    logger.error("final hook of job %s failed", job.pk, exc_info=fault)
    if job.hook_pending:
        return
    jobs = BuildJob.objects.using(database.alias())
    jobs.filter(pk=job.pk).update(hook_pending=True)
    job.hook_pending = True
    message = logs.storable(f"{type(fault).__name__}: {fault}"[:2000])
    record(job, EventKind.FINAL_HOOK_FAILED, detail={"error": message})


def _fail_for_missing_result(job: BuildJob, reason: str) -> BuildJob:
    """Take "done" back, on the job and on its run, and return the failed job."""
    reason = logs.storable(reason) or "the handler said done but left no result"
    error = {"error_code": "result_missing", "error_msg": reason}
    jobs = BuildJob.objects.using(database.alias())
    jobs.filter(pk=job.pk).update(status=JobStatus.FAILED, result=None, **error)
    runs = JobRun.objects.using(database.alias())
    runs.filter(job_id=job.pk, attempt=job.attempt).update(
        outcome=RunOutcome.FAILED, **error
    )
    failed = jobs.get(pk=job.pk)
    change = Change(
        transition=states.RESULT_MISSING, target=JobStatus.FAILED, reason=reason
    )
    record(failed, states.RESULT_MISSING.name, change=change)
    return failed
