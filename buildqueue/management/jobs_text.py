"""How does a job look in a terminal?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ..models import BuildJob, JobEvent, JobRun
from ..queue import logs
from ..queue.logs import Position
from . import work_text
from .finding import NotFound
from .work_text import moment

FOLLOW_SECONDS = 0.5


def listing(options: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a list of jobs, the newest first."""
    wanted = {k: options[k] for k in ("status", "kind", "queue") if options[k]}
    if options["code"]:
        wanted["error_code"] = options["code"]
    jobs = BuildJob.objects.filter(**wanted).order_by("-created_at", "-id")
    if not options["json"]:
        head = f"{'id':<36}  {'status':<16}  {'kind':<18}  {'queue':<10}  try"
        yield f"{head}  {'created':<19}  error"
    for job in jobs[: options["limit"]]:
        if options["json"]:
            yield json.dumps(as_dict(job), default=str)
            continue
        tried = f"{job.attempt}/{job.max_attempts}"
        created = moment(job.created_at)
        line = (
            f"{job.pk}  {job.status:<16}  {job.kind:<18}  {job.queue:<10}  {tried:<3}"
        )
        yield f"{line}  {created}  {job.error_code or ''}".rstrip()


def as_dict(job: BuildJob) -> dict[str, Any]:
    """Return what is shown of a job as data; its payload is not."""
    shown = (
        "id kind status queue priority attempt max_attempts owner_id agent_id "
        "connector_id created_at due_at first_started_at completed_at error_code "
        "error_msg result"
    )
    return {name: getattr(job, name) for name in shown.split()}


def details(job: BuildJob, as_json: bool) -> Iterator[str]:
    """Yield the lines that show one job with its runs and timeline."""
    runs = JobRun.objects.filter(job=job).order_by("attempt")
    events = JobEvent.objects.filter(job=job).order_by("id")
    if as_json:
        whole = as_dict(job) | work_text.as_dict(job)
        whole |= {
            "runs": [_run_dict(run) for run in runs],
            "events": [_event_dict(event) for event in events],
        }
        yield json.dumps(whole, default=str, indent=2)
        return
    for name, value in as_dict(job).items():
        if value not in (None, ""):
            shown = json.dumps(value) if name == "result" else value
            yield f"{name:<17} {shown}"
    if job.parent_id:
        yield f"{'parent':<17} {job.parent_id}"
    for title, lines in work_text.sections(job):
        if lines:
            yield from _section(title, lines)
    yield from _section("runs", (_run_line(run) for run in runs))
    yield from _section("timeline", (_event_line(event) for event in events))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield ""
    yield title
    for line in lines:
        yield f"  {line}"


def _run_dict(run: JobRun) -> dict[str, Any]:
    shown = (
        "id attempt worker pid started_at ended_at outcome exit_code exit_signal "
        "error_code error_msg peak_memory_bytes cpu_seconds"
    )
    return {name: getattr(run, name) for name in shown.split()}


def _run_line(run: JobRun) -> str:
    ended = "-" if run.ended_at is None else moment(run.ended_at)
    times = f"{moment(run.started_at)}  {ended:<19}"
    process = f"worker {run.worker}  pid {run.pid or '-'}"
    told = f"{run.outcome or 'running':<12}  {process}  {run.error_msg or ''}"
    return f"{run.attempt}  {times}  {told}".rstrip()


def _event_dict(event: JobEvent) -> dict[str, Any]:
    shown = "id kind title attempt actor reason detail created_at"
    return {name: getattr(event, name) for name in shown.split()}


def _event_line(event: JobEvent) -> str:
    told = f"{moment(event.created_at)}  {event.kind:<14}  {event.title}"
    by = f"  by {event.actor}" if event.actor else ""
    return f"{told}{by}{'  ' + event.reason if event.reason else ''}"


def log_lines(job: BuildJob, since: str, follow: bool) -> Iterator[str]:
    """Yield the lines of a job's log; when following, until it is complete."""
    try:
        position = Position.parse(since)
    except ValueError:
        raise NotFound(f"{since!r} is no position: give attempt.seq") from None
    rest = ""
    while True:
        last = not follow or logs.complete(job.pk)  # asked first, then all is read
        while chunks := logs.read(job.pk, position):
            position = logs.position_of(chunks[-1])
            *lines, rest = (rest + "".join(c.text for c in chunks)).split("\n")
            yield from map(logs.for_terminal, lines)
        if last:
            break
        time.sleep(FOLLOW_SECONDS)
    if rest:
        yield logs.for_terminal(rest)
