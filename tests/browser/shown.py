"""The job whose page is pictured: an upload that crashed once and is nearly up again.

Its steps and lines are those that `executors/upload.py` prints.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from buildqueue.models import Agent, BuildJob, JobEvent, LogChunk, Worker
from buildqueue.states import EventKind
from tests.factories import make_build, make_job, make_run

SIGKILLED = "its process was ended by SIGKILL"
DIGEST = "9f2b41c7d05e8a36" * 4
BEGUN = """\
==> fetch
the source is sources/9f/9f2b41c7d05e.zip
unpacked, files: 14
==> verify
the source can be built, as version 2.3.1
==> build
making a virtual environment
installing requirements.txt
Collecting fastapi==0.118.0 (from -r requirements.txt (line 1))
"""
INSTALLED = """\
Collecting uvicorn==0.37.0 (from -r requirements.txt (line 2))
Installing collected packages: typing-extensions, sniffio, idna, h11, click, uvicorn, \
anyio, starlette, pydantic, fastapi
Successfully installed fastapi-0.118.0 uvicorn-0.37.0
built {reference}, 31846912 bytes
==> publish
the artifact is {reference}
==> deploy
instance {instance} is started, confined by uid
==> health
health: nothing listens on port 20147 yet
health: / answered 503
"""


def ago(**length: float) -> datetime:
    """Return a moment before now."""
    return timezone.now() - timedelta(**length)


def payload_of(kind: str, **more: Any) -> dict[str, Any]:
    """Return the payload of a kind."""
    return {"kind": kind, "version": 1, **more}


def build(agent: Agent, worker: Worker, owner: str) -> BuildJob:
    """Make the job, its runs, log and timeline."""
    built = make_build(
        agent,
        version_tag="2.3.1",
        status="building",
        phase="health",
        triggered_by=owner,
    )
    job = make_job(
        "in_progress",
        agent=agent,
        owner_id=owner,
        priority=5,
        payload=_upload(agent, built.pk, owner),
        attempt=2,
        crashes=1,
        worker=worker.pk,
        serial_key=f"agent:{agent.pk}",
        created_at=ago(minutes=3, seconds=40),
        first_started_at=ago(minutes=3, seconds=37),
        picked_at=ago(seconds=34),
    )
    type(built).objects.filter(pk=built.pk).update(job=job)
    job.runs.update(pid=41877, started_at=ago(seconds=34))
    crashed = make_run(
        job,
        id=uuid.uuid4(),
        attempt=1,
        worker=worker.pk,
        serial_key=None,
        pid=41702,
        started_at=ago(minutes=3, seconds=37),
        ended_at=ago(minutes=2, seconds=58),
        outcome="crashed",
        exit_signal=9,
        error_code="killed_by_signal",
        error_msg=SIGKILLED,
        peak_memory_bytes=61_000_000,
        cpu_seconds=0.8,
    )
    _log(job, crashed.pk)
    _events(job, crashed.pk)
    return job


def _upload(agent: Agent, build_id: uuid.UUID, owner: str) -> dict[str, Any]:
    return payload_of(
        "upload",
        name=agent.name,
        build_id=str(build_id),
        agent_id=str(agent.pk),
        owner_id=owner,
        agent_owner_id=owner,
        agent_version="2.3.1",
        source={"key": f"sources/9f/{DIGEST}.zip", "sha256": DIGEST, "size": 48211},
    )


def print_line(
    job: BuildJob, run: uuid.UUID | None, attempt: int, seq: int, stream: str, text: str
) -> None:
    """Print to the log of a job's run."""
    LogChunk.objects.create(
        job_id=job.pk,
        run_id=run or job.pk,
        attempt=attempt,
        seq=seq,
        stream=stream,
        text=text,
    )


def _log(job: BuildJob, crashed: uuid.UUID) -> None:
    rest = INSTALLED.format(
        reference=f"local:{job.agent_id}/2.3.1@sha256:{DIGEST}", instance=uuid.uuid4()
    )
    print_line(job, crashed, 1, 1, "stdout", BEGUN)
    print_line(job, crashed, 1, 2, "system", f"[{SIGKILLED}]\n")
    print_line(job, job.lease_id, 2, 1, "stdout", BEGUN + rest)


def _events(job: BuildJob, crashed: uuid.UUID) -> None:
    now = job.lease_id
    begun, ended = EventKind.STEP_STARTED, EventKind.STEP_FINISHED
    rows: list[tuple[float, uuid.UUID | None, int, str, str, str, str]] = [
        (220, None, 0, "enqueue", "pending", "operator", ""),
        (217, crashed, 1, "claim", "in_progress", "worker", ""),
        (216, crashed, 1, begun, "fetch", "worker", ""),
        (215.9, crashed, 1, ended, "fetch", "worker", ""),
        (215.9, crashed, 1, begun, "verify", "worker", ""),
        (215.7, crashed, 1, ended, "verify", "worker", ""),
        (215.7, crashed, 1, begun, "build", "worker", ""),
        (178, crashed, 1, "rescue", "pending", "system", SIGKILLED),
        (34, now, 2, "claim", "in_progress", "worker", ""),
        (33, now, 2, begun, "fetch", "worker", ""),
        (32.9, now, 2, ended, "fetch", "worker", ""),
        (32.9, now, 2, begun, "verify", "worker", ""),
        (32.7, now, 2, ended, "verify", "worker", ""),
        (32.7, now, 2, begun, "build", "worker", ""),
        (9.1, now, 2, ended, "build", "worker", ""),
        (9.1, now, 2, begun, "publish", "worker", ""),
        (9, now, 2, ended, "publish", "worker", ""),
        (9, now, 2, begun, "deploy", "worker", ""),
        (8.4, now, 2, ended, "deploy", "worker", ""),
        (8.4, now, 2, begun, "health", "worker", ""),
    ]
    for seconds, run, attempt, kind, title, actor, reason in rows:
        JobEvent.objects.create(
            job=job,
            run=run,
            attempt=attempt,
            kind=kind,
            title=title,
            actor=actor,
            reason=reason,
            created_at=ago(seconds=seconds),
            detail={"code": "killed_by_signal"} if kind == "rescue" else {},
        )
