"""How does a job look in a terminal?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery, Value
from django.db.models.lookups import Exact

from ..models import BuildJob, JobEvent, JobRun
from . import work_text
from .shown import MOMENT, all_tries, cut, moment, short, tries

MOST_COUNTED = 10_000
EXHAUSTED = "max_attempts_exhausted"
RUNS = JobRun.objects.filter(job_id=OuterRef("pk"), error_code__isnull=False)
LAST_CODE = Subquery(RUNS.order_by("-attempt", "-started_at").values("error_code")[:1])


def listing(options: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a list of jobs, the newest first."""
    wanted = {k: options[k] for k in ("status", "kind", "queue") if options[k]}
    jobs = BuildJob.objects.filter(_with_code(options["code"]), **wanted)
    ordered = jobs.defer("payload").order_by("-created_at", "-id")
    rows = list(ordered[: options["limit"]])
    if options["json"]:
        yield from (json.dumps(as_dict(job), default=str) for job in rows)
        return
    head = f"{'id':<36}  {'status':<16}  {'kind':<18}  {'queue':<10}  {'owner':<14}"
    yield f"{head}  tries  {'created':<{MOMENT}}  error"
    causes = _causes(rows)
    yield from (_job_line(job, causes.get(job.pk)) for job in rows)
    if len(rows) == options["limit"]:
        yield from _rest(len(rows), jobs[: MOST_COUNTED + 1].count())


def _job_line(job: BuildJob, cause: str | None) -> str:
    what = f"{job.pk}  {job.status:<16}  {job.kind:<18}  {job.queue:<10}"
    whose = f"{cut(job.owner_id):<14}  {tries(job):<5}  {moment(job.created_at)}"
    error = f"{job.error_code} ({cause})" if cause else job.error_code or ""
    return f"{what}  {whose}  {error}".rstrip()


def _rest(shown: int, found: int) -> Iterator[str]:
    if found > shown:
        number = f"{MOST_COUNTED}+" if found > MOST_COUNTED else found
        yield f"{shown} of {number}; --limit for more"


def _with_code(code: str | None) -> Q:
    """Return the jobs with this error, or whose last run had it when all were used up."""
    if not code:
        return Q()
    used_up = Q(error_code=EXHAUSTED)
    return Q(error_code=code) | used_up & Q(Exact(LAST_CODE, Value(code)))


def _causes(jobs: Sequence[BuildJob]) -> dict[UUID, str]:
    """Return why the last run failed of those jobs whose tries are used up."""
    used_up = [job.pk for job in jobs if job.error_code == EXHAUSTED]
    if not used_up:
        return {}
    runs = JobRun.objects.filter(job_id__in=used_up, error_code__isnull=False)
    last = runs.order_by("job_id", "-attempt", "-started_at").distinct("job_id")
    return {
        run.job_id: run.error_code or "" for run in last.only("job_id", "error_code")
    }


def as_dict(job: BuildJob) -> dict[str, Any]:
    """Return what is shown of a job as data; its payload is not."""
    shown = (
        "id kind status queue priority attempt failures crashes max_attempts owner_id "
        "agent_id connector_id created_at due_at first_started_at completed_at "
        "error_code error_msg result"
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
    for name, value in _facts(job).items():
        if value not in (None, ""):
            yield f"{name:<17} {value}"
    if job.parent_id:
        yield f"{'parent':<17} {job.parent_id}"
    for title, lines in work_text.sections(job):
        if lines:
            yield from _section(title, lines)
    yield from _section("runs", _run_lines(runs))
    yield from _section("timeline", (_event_line(event) for event in events))


def _facts(job: BuildJob) -> dict[str, Any]:
    """Return a job's own facts as they are shown."""
    facts: dict[str, Any] = {}
    for name, value in as_dict(job).items():
        match name:
            case "attempt" | "failures" | "crashes":
                continue
            case "max_attempts":
                facts["tries"] = all_tries(job)
            case "result":
                facts[name] = None if value is None else json.dumps(value)
            case _:
                facts[name] = moment(value) if isinstance(value, datetime) else value
    return facts


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


def _run_lines(runs: Iterable[JobRun]) -> Iterator[str]:
    """Yield the runs below their headings; nothing when there are none."""
    for number, run in enumerate(runs):
        if number == 0:
            times = f"{'started':<{MOMENT}}  {'ended':<{MOMENT}}"
            yield f"attempt  {times}  {'outcome':<11}  {'worker':<8}  {'pid':<7}  error"
        yield _run_line(run)


def _run_line(run: JobRun) -> str:
    times = f"{moment(run.started_at)}  {moment(run.ended_at):<{MOMENT}}"
    process = f"{short(run.worker):<8}  {run.pid or '-':<7}"
    error = ": ".join(filter(None, (run.error_code, run.error_msg)))
    told = f"{run.outcome or 'running':<11}  {process}  {error}"
    return f"{run.attempt:<7}  {times}  {told}".rstrip()


def _event_dict(event: JobEvent) -> dict[str, Any]:
    shown = "id kind title attempt actor reason detail created_at"
    return {name: getattr(event, name) for name in shown.split()}


def _event_line(event: JobEvent) -> str:
    told = f"{moment(event.created_at)}  {event.kind:<16}  {event.title}"
    by = f"  by {event.actor}" if event.actor else ""
    return f"{told}{by}{'  ' + event.reason if event.reason else ''}"
