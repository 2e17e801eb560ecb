"""What did a job print? Its last lines on the page, live as JSON, whole as a download.

Lines are made on the server: chunks of one stream are joined, control sequences become
class names, and a reader that names the position it has gets what came after. The page
and the live answer use the same lines, so a page without a script misses only the
liveliness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseNotModified,
    JsonResponse,
    StreamingHttpResponse,
)

from ..models import BuildJob, JobEvent, LogChunk
from ..queue import logs
from ..queue.logs import Position
from .loglines import Line, lines_of

SHOWN_LINES = 1_000
FEW_CHUNKS, MANY_CHUNKS = 20, 200  # up to 64 KiB each
LIVE_CHUNKS = 100
LAST_EVENT = Subquery(
    JobEvent.objects.filter(job_id=OuterRef("pk")).order_by("-id").values("pk")[:1]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The end of a job's log, and the position after it."""

    lines: list[Line]
    position: Position
    is_whole: bool  # whether the log began within it


def tail(job_id: UUID) -> Tail:
    """Return the last lines; a second, larger read only when chunks are short."""
    chunks = logs.tail(job_id, limit=FEW_CHUNKS)
    many = len(chunks) == FEW_CHUNKS
    if many and sum(chunk.text.count("\n") for chunk in chunks) < SHOWN_LINES:
        chunks = logs.tail(job_id, limit=MANY_CHUNKS)
    lines = list(lines_of(chunks))
    begun = not chunks or (len(chunks) not in (FEW_CHUNKS, MANY_CHUNKS))
    return Tail(
        lines=lines[-SHOWN_LINES:],
        position=logs.position_of(chunks[-1]) if chunks else Position(),
        is_whole=begun and len(lines) <= SHOWN_LINES,
    )


def live(request: HttpRequest, job: BuildJob) -> HttpResponse:
    """Answer what came after `?since=`; 304 when nothing did and nothing changed."""
    try:
        since = Position.parse(request.GET.get("since", "0.0"))
    except ValueError:
        return HttpResponseBadRequest("since is attempt.seq, such as 1.20")
    chunks = logs.read(job.pk, since, limit=LIVE_CHUNKS)
    position = logs.position_of(chunks[-1]) if chunks else since
    version = version_of(job, getattr(job, "last_event", None))
    tag = f'"{position}-{version}"'
    if not chunks and request.headers.get("If-None-Match") == tag:
        return HttpResponseNotModified(headers={"ETag": tag})
    answer = {
        "position": str(position),
        "version": version,
        "ended": job.is_final,
        "more": len(chunks) == LIVE_CHUNKS,
        "lines": [asdict(line) for line in lines_of(chunks)],
    }
    return JsonResponse(answer, headers={"ETag": tag})


def version_of(job: BuildJob, last_event: int | None) -> str:
    """Return what changes whenever the job's page has something new beside the log."""
    progress = getattr(job, "progress", None)
    moved = progress.updated_at.timestamp() if progress else 0
    return f"{job.status}-{job.attempt}-{job.priority}-{last_event or 0}-{moved}"


def raw(job: BuildJob) -> StreamingHttpResponse:
    """Return the whole log as a text file, as it was printed."""
    return StreamingHttpResponse(
        _pages(job.pk),
        content_type="text/plain; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="job-{job.pk}.log"',
            "X-Content-Type-Options": "nosniff",
        },
    )


def _pages(job_id: UUID) -> Iterator[str]:
    position = Position()
    chunks: Sequence[LogChunk] = logs.read(job_id, position, limit=FEW_CHUNKS)
    while chunks:
        yield from (chunk.text for chunk in chunks)
        position = logs.position_of(chunks[-1])
        chunks = logs.read(job_id, position, limit=FEW_CHUNKS)
