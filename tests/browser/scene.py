"""A queue on an ordinary day: what the screenshots show."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from buildqueue.models import BuildJob, JobEvent, LogChunk, Worker
from tests.factories import make_agent, make_connector, make_job, make_run

NOW_WORKING = """\
\x1b[1mFetching source\x1b[0m https://git.example.org/shop/search-api at \x1b[36mmain\x1b[0m
Cloned 214 files, 1.8 MiB, commit 7c1e0f2
\x1b[1mPreparing environment\x1b[0m with Python 3.12
Collecting fastapi==0.118.0
Collecting uvicorn==0.37.0
Collecting qdrant-client==1.15.1
"""
WARNED = "DEPRECATION: search-api 2.3.1 uses setup.py; add a pyproject.toml\n"
REST = """\
\x1b[32mInstalled 31 packages in 4.2 s\x1b[0m
\x1b[1mStarting\x1b[0m instance b of search-api on port 20147
Waiting for /health: \x1b[33m503\x1b[0m, \x1b[33m503\x1b[0m
"""


def _ago(**length: float) -> datetime:
    return timezone.now() - timedelta(**length)


def _worker(host: str, pid: int, busy: int, *, silent: float = 1.0, **v: Any) -> Worker:
    worker = Worker.objects.create(
        host=host, pid=pid, slots=4, busy=busy, version="0.1.0", **v
    )
    Worker.objects.filter(pk=worker.pk).update(
        heartbeat_at=_ago(seconds=silent), started_at=_ago(hours=19)
    )
    return worker


def _payload(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "version": 1, **more}


def _ended(status: str, agent: Any, minutes: float, **values: Any) -> BuildJob:
    start = _ago(minutes=minutes)
    return make_job(
        status,
        agent=agent,
        created_at=start - timedelta(seconds=4),
        first_started_at=start,
        completed_at=start + timedelta(seconds=40 + 13 * (minutes % 7)),
        attempt=values.pop("attempt", 1),
        **values,
    )


def build() -> BuildJob:
    """Fill the tables; return the job whose page is shown."""
    first = _worker("builder-1", 4121, 2, queues=["builds", "default"])
    second = _worker("builder-2", 918, 1, queues=["builds"])
    _worker("builder-3", 2204, 1, silent=205, queues=["default"])
    search, mail = make_agent(name="search-api"), make_agent(name="mail-digest")
    prices = make_agent(name="price-watch")
    weather = make_connector(name="weather-tools")

    for minutes in range(7, 98, 9):
        agent = (search, mail, prices)[minutes % 3]
        _ended("done", agent, minutes, payload=_payload("update"), queue="builds")
    _ended(
        "failed",
        mail,
        3,
        payload=_payload("upload"),
        queue="builds",
        attempt=3,
        failures=3,
        error_code="install_failed",
        error_msg="pip could not install the requirements: no version of "
        "imap-tools matches >=9",
    )
    _ended(
        "failed",
        prices,
        26,
        payload=_payload("github_clone"),
        queue="builds",
        error_code="health_check_failed",
        error_msg="no answer on /health within 90 s; the old version keeps running",
    )
    _ended(
        "cancelled",
        prices,
        48,
        payload=_payload("update"),
        queue="builds",
        error_code="cancelled",
        error_msg="wrong branch",
    )
    _running(prices, second, 95, "update")
    make_job(
        "in_progress",
        connector=weather,
        queue="builds",
        payload=_payload("mcp_server_upload"),
        worker=first.pk,
        created_at=_ago(minutes=1),
        picked_at=_ago(seconds=21),
    )
    make_job(
        "pending",
        agent=mail,
        queue="builds",
        priority=10,
        payload=_payload("upload"),
        serial_key=f"agent:{mail.pk}",
        due_at=_ago(minutes=2, seconds=14),
        created_at=_ago(minutes=2, seconds=14),
    )
    make_job(
        "scheduled",
        agent=prices,
        queue="builds",
        payload=_payload("rollback"),
        failures=1,
        attempt=1,
        due_at=timezone.now() + timedelta(minutes=4),
        created_at=_ago(minutes=5),
    )
    make_job("waiting_approval", agent=search, payload=_payload("rollback"))
    return _shown(search, first)


def _running(agent: Any, worker: Worker, seconds: float, kind: str) -> BuildJob:
    return make_job(
        "in_progress",
        agent=agent,
        queue="builds",
        payload=_payload(kind),
        worker=worker.pk,
        created_at=_ago(seconds=seconds + 3),
        first_started_at=_ago(seconds=seconds),
        picked_at=_ago(seconds=seconds),
    )


def _shown(agent: Any, worker: Worker) -> BuildJob:
    payload = _payload(
        "github_clone",
        repository="https://git.example.org/shop/search-api",
        ref="main",
        agent_version="2.3.1",
        env={"QDRANT_URL": "http://qdrant:6333", "OPENAI_API_KEY": "sk-not-shown"},
    )
    job = make_job(
        "in_progress",
        agent=agent,
        owner_id="ada",
        queue="builds",
        priority=5,
        payload=payload,
        attempt=2,
        failures=1,
        worker=worker.pk,
        serial_key=f"agent:{agent.pk}",
        created_at=_ago(minutes=3, seconds=40),
        first_started_at=_ago(minutes=3, seconds=37),
        picked_at=_ago(seconds=34),
    )
    job.runs.update(pid=41877, started_at=_ago(seconds=34))
    failed = uuid.uuid4()
    make_run(
        job,
        id=failed,
        attempt=1,
        worker=worker.pk,
        serial_key=None,
        pid=41702,
        started_at=_ago(minutes=3, seconds=37),
        ended_at=_ago(minutes=2, seconds=58),
        outcome="failed",
        exit_code=1,
        error_code="git_unreachable",
        error_msg="git.example.org did not answer within 30 s",
        peak_memory_bytes=61_000_000,
        cpu_seconds=0.8,
    )
    _log(job, failed)
    _events(job)
    return job


def _log(job: BuildJob, failed: uuid.UUID) -> None:
    texts = [
        (failed, 1, 1, "system", "attempt 1 on builder-1\n"),
        (failed, 1, 2, "stdout", NOW_WORKING.split("\n")[0] + "\n"),
        (failed, 1, 3, "stderr", "fatal: unable to access: timed out after 30 s\n"),
        (job.lease_id, 2, 1, "system", "attempt 2 on builder-1\n"),
        (job.lease_id, 2, 2, "stdout", NOW_WORKING),
        (job.lease_id, 2, 3, "stderr", WARNED),
        (job.lease_id, 2, 4, "stdout", REST),
    ]
    for run, attempt, seq, stream, text in texts:
        LogChunk.objects.create(
            job_id=job.pk,
            run_id=run,
            attempt=attempt,
            seq=seq,
            stream=stream,
            text=text,
        )


def _events(job: BuildJob) -> None:
    rows: list[tuple[float, int, str, str, str, str]] = [
        (220, 0, "enqueue", "pending", "ada", ""),
        (217, 1, "claim", "in_progress", "worker", ""),
        (216, 1, "step_started", "fetch", "", ""),
        (179, 1, "step_failed", "fetch", "", "git.example.org did not answer"),
        (178, 1, "retry_later", "scheduled", "worker", "tried again in 2 min 20 s"),
        (36, 1, "promote", "pending", "system", ""),
        (34, 2, "claim", "in_progress", "worker", ""),
        (33, 2, "step_finished", "fetch", "", ""),
        (9, 2, "step_finished", "install", "", ""),
        (8, 2, "step_started", "start", "", ""),
    ]
    for seconds, attempt, kind, title, actor, reason in rows:
        JobEvent.objects.create(
            job=job,
            attempt=attempt,
            kind=kind,
            title=title,
            actor=actor,
            reason=reason,
            created_at=_ago(seconds=seconds),
            detail={"seconds": 24.1} if title == "install" else {},
        )
