"""What leaves the database when it is old, and what never does?

Jobs that ended long ago, with their runs, events, checkpoints, progress and actions, which
the database's own cascades take along, and their logs; notices, and the rows of workers
that are gone. Never a job that is open, whose final hook is due, that has an open run, an
open child or an open parent, or an action of unknown outcome.

In chunks, each a transaction of its own and bounded, so that nobody waits long for a row
or for a vacuum. If the process dies in it, the chunk is untouched, the ones before are
gone, and the next tick goes on.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from typing import Any, Final

from django.db import OperationalError

from .. import conf
from ..states import JobStatus
from . import database

logger = logging.getLogger(__name__)

CHUNK: Final = 1000
LOGS_LOOKED_AT: Final = 500  # jobs a tick whose log might have outlived them

# The oldest row of each kind decides; a NULL age keeps for ever. One statement, so that
# a worker with nothing to clear stays cheap.
ANYTHING_OLD = """
SELECT (SELECT min(created_at) FROM buildqueue_buildjob WHERE status = 'done')
         < now() - %(done)s::interval
    OR (SELECT min(created_at) FROM buildqueue_buildjob WHERE status = 'failed')
         < now() - %(failed)s::interval
    OR (SELECT min(created_at) FROM buildqueue_buildjob WHERE status = 'cancelled')
         < now() - %(failed)s::interval
    OR (SELECT min(created_at) FROM buildqueue_notice WHERE status <> 'pending')
         < now() - LEAST(%(done)s::interval, %(failed)s::interval)
    OR EXISTS (SELECT 1 FROM buildqueue_worker
               WHERE status IN ('stopped', 'lost')
                 AND heartbeat_at < now() - %(done)s::interval)
"""
# `created_at` is what the index of ended jobs is ordered by; none ended before it was
# made, so the old ones are found at its end. The logs hang on no foreign key.
PRUNE_JOBS = """
WITH old AS MATERIALIZED (
    SELECT job.id FROM buildqueue_buildjob AS job
    WHERE job.status = '{status}'
      AND job.created_at < now() - %(age)s::interval
      AND job.completed_at < now() - %(age)s::interval
      AND NOT job.hook_pending
      AND NOT EXISTS (SELECT 1 FROM buildqueue_buildjob AS child
                      WHERE child.parent_id = job.id AND child.completed_at IS NULL)
      AND (job.parent_id IS NULL
           -- A parent that is not done may be retried, and wants what its children made.
           OR (SELECT parent.status FROM buildqueue_buildjob AS parent
               WHERE parent.id = job.parent_id) = 'done')
      AND NOT EXISTS (SELECT 1 FROM buildqueue_jobrun AS run
                      WHERE run.job_id = job.id AND run.ended_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM buildqueue_jobaction AS action
                      WHERE action.job_id = job.id
                        AND action.status = 'outcome_unknown')
    ORDER BY job.created_at, job.id
    LIMIT %(most)s
    FOR UPDATE OF job SKIP LOCKED
), logs AS (
    DELETE FROM buildqueue_logchunk WHERE job_id = ANY(ARRAY(SELECT id FROM old))
)
DELETE FROM buildqueue_buildjob WHERE id = ANY(ARRAY(SELECT id FROM old))
"""
# A lock that is not had soon is left alone: a verb that waits for us must not be the one
# that a deadlock ends.
CHUNK_SETTINGS = """
SELECT set_config('buildqueue.retention', 'on', true),
       set_config('lock_timeout', '500ms', true)
"""
PRUNE_NOTICES = """
DELETE FROM buildqueue_notice WHERE id = ANY(ARRAY(
    SELECT id FROM buildqueue_notice
    WHERE status = %(status)s AND created_at < now() - %(age)s::interval
    ORDER BY created_at LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
))
"""
PRUNE_WORKERS = """
DELETE FROM buildqueue_worker WHERE id = ANY(ARRAY(
    SELECT id FROM buildqueue_worker
    WHERE status IN ('stopped', 'lost') AND heartbeat_at < now() - %(age)s::interval
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
))
"""
# From one job's log to the next along the index, without reading the lines between; from
# a place picked at random, so that after some ticks all of it was looked at.
ORPHANED_LOGS = """
WITH RECURSIVE seen (job_id, n) AS (
    (SELECT job_id, 1 FROM buildqueue_logchunk
     WHERE job_id >= %(start)s ORDER BY job_id LIMIT 1)
    UNION ALL
    SELECT (SELECT chunk.job_id FROM buildqueue_logchunk AS chunk
            WHERE chunk.job_id > seen.job_id ORDER BY chunk.job_id LIMIT 1), n + 1
    FROM seen WHERE seen.job_id IS NOT NULL AND n < %(most)s
)
SELECT count(*), array_agg(job_id) FILTER (
    WHERE NOT EXISTS (SELECT 1 FROM buildqueue_buildjob WHERE id = seen.job_id)
) FROM seen WHERE job_id IS NOT NULL
"""
PRUNE_ORPHANS = """
DELETE FROM buildqueue_logchunk WHERE id = ANY(ARRAY(
    SELECT id FROM buildqueue_logchunk WHERE job_id = ANY(%(jobs)s) LIMIT %(most)s
))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many rows one call cleared away."""

    jobs: int = 0
    notices: int = 0
    workers: int = 0
    orphaned_lines: int = 0


def prune(limit: int = 50_000) -> Pruned:
    """Clear away what is old, at most so many jobs; what is left the next call takes."""
    orphaned = _prune_orphans()
    now = conf.get()
    ages = {
        "done": _age(now.retention_done_days),
        "failed": _age(now.retention_failed_days),
    }
    pruned = Pruned(orphaned_lines=orphaned)
    if _ask(ANYTHING_OLD, **ages)[0]:
        pruned = replace(_prune_old(limit, **ages), orphaned_lines=orphaned)
    if any(astuple(pruned)):
        logger.info("old rows cleared away: %s", pruned)
    return pruned


def _age(days: float | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _prune_old(
    limit: int, *, done: timedelta | None, failed: timedelta | None
) -> Pruned:
    left = limit
    for status, age in (
        (JobStatus.DONE, done),
        (JobStatus.FAILED, failed),
        (JobStatus.CANCELLED, failed),
    ):
        left -= _prune_jobs(status, age, left)
    sent = _delete(PRUNE_NOTICES, status="sent", age=done, most=limit)
    given_up = _delete(PRUNE_NOTICES, status="failed", age=failed, most=limit)
    return Pruned(
        jobs=limit - left,
        notices=sent + given_up,
        workers=_delete(PRUNE_WORKERS, age=done, most=limit),
    )


def _prune_jobs(status: str, age: timedelta | None, limit: int) -> int:
    if age is None:
        return 0
    pruned = 0
    while pruned < limit:
        most = min(CHUNK, limit - pruned)
        try:
            with database.atomic():
                _ask(CHUNK_SETTINGS)
                gone = _delete(PRUNE_JOBS.format(status=status), age=age, most=most)
        except OperationalError as error:
            if not database.connection().is_usable():
                raise
            logger.info("old %s jobs are left to the next tick: %s", status, error)
            break
        pruned += gone
        if gone < most:
            break
    return pruned


def _prune_orphans() -> int:
    """Clear away logs whose jobs are gone, as after a raw DELETE or a late line."""
    start = uuid.uuid4()
    seen, orphans = _ask(ORPHANED_LOGS, start=start, most=LOGS_LOOKED_AT)
    if seen < LOGS_LOOKED_AT:  # the end was near: go on at the beginning
        most = LOGS_LOOKED_AT - seen
        more = _ask(ORPHANED_LOGS, start=uuid.UUID(int=0), most=most)[1]
        orphans = [*(orphans or ()), *(more or ())]
    return _delete(PRUNE_ORPHANS, jobs=orphans, most=10 * CHUNK) if orphans else 0


def _ask(sql: str, **values: Any) -> tuple[Any, ...]:
    with database.connection().cursor() as cursor:
        cursor.execute(sql, values)
        found: tuple[Any, ...] = cursor.fetchone()
    return found


def _delete(sql: str, **values: Any) -> int:
    with database.connection().cursor() as cursor:
        cursor.execute(sql, values)
        return int(cursor.rowcount)
