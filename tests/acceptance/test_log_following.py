"""Is a line seen soon after it was printed, and are they all there when they are many?"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import quantiles

from django.test import Client

from buildqueue.models import BuildJob, LogChunk
from buildqueue.queue import enqueueing, logs
from buildqueue.states import JobStatus
from buildqueue.worker.logkeeping import TAIL_BYTES
from tests.factories import make_user
from tests.host.printing import ManyLines, Ticks
from tests.support.jobs import text, wait_for
from tests.support.processes import Workers, command, environment
from tests.support.waiting import wait_until

TICKS = 48
TICK = re.compile(r"^tick ([0-9.]+)$", re.MULTILINE)


def delays_of(pieces: Iterable[str], told: Path) -> Iterator[float]:
    """Have the job go on once it is seen to be ready; yield how old each tick is."""
    for piece in pieces:
        if "ready\n" in piece:
            told.touch()
        for printed in TICK.findall(piece):
            yield time.monotonic() - float(printed)


def assert_seen_while_it_runs(who: str, job: BuildJob, delays: list[float]) -> None:
    """Tell the delays; the slow ones must be short beside the time of the whole run."""
    p50, p95 = quantiles(delays, n=20)[9], quantiles(delays, n=20)[18]
    print(f"{who}: line to follower p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms")
    ended = wait_for(job)
    assert len(delays) == TICKS
    assert ended.picked_at is not None
    assert ended.completed_at is not None
    assert p95 * 3 < (ended.completed_at - ended.picked_at).total_seconds()


def test_who_follows_by_the_command_sees_a_line_while_the_job_runs(
    workers: Workers, tmp_path: Path
) -> None:
    workers.start()
    told = tmp_path / "told"
    job = enqueueing.enqueue(Ticks(path=str(told), ticks=TICKS))
    following = subprocess.Popen(
        command("buildqueue", "logs", "-f", str(job.pk)),
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with following:
        try:
            assert following.stdout is not None
            delays = list(delays_of(following.stdout, told))
        finally:
            following.kill()
    assert_seen_while_it_runs("command", job, delays)


def follow(client: Client, address: str) -> Iterator[str]:
    """Yield the text of a log as it comes, asking again when the answer says so."""
    since, never = "0.0", threading.Event()
    while True:
        page = client.get(address, {"since": since}).json()
        yield from (chunk["text"] for chunk in page["chunks"])
        since = page["next"]
        if page["finished"]:
            return
        never.wait(page["look_again_ms"] / 1000)


def test_who_follows_by_the_api_sees_a_line_while_the_job_runs(
    workers: Workers, tmp_path: Path
) -> None:
    owner = make_user("follower")
    client = Client()
    client.force_login(owner)
    workers.start()
    told = tmp_path / "told"
    ticking = Ticks(path=str(told), ticks=TICKS)
    job = enqueueing.enqueue(ticking, owner_id=str(owner.pk))

    seen = follow(client, f"/api/jobs/{job.pk}/log")

    assert_seen_while_it_runs("API", job, list(delays_of(seen, told)))


def whole(lines: int) -> str:
    return "".join(f"line {number}\n" for number in range(lines))


def test_two_hundred_thousand_lines_of_one_program_are_all_kept(
    workers: Workers,
) -> None:
    workers.start(log_max_bytes_per_run=64 * 1024 * 1024)
    job = enqueueing.enqueue(ManyLines(lines=200_000))
    done = wait_for(job)
    assert done.status == JobStatus.DONE
    print(f"printed {done.result['lines_a_second']:.0f} lines a second")

    wait_until(
        lambda: (
            (last := logs.tail(job.pk, limit=1))
            and last[0].text.endswith("line 199999\n")
        ),
        message=lambda: logs.tail(job.pk, limit=1),
    )
    kept = text(job)
    assert kept.count("\n") == 200_000
    assert kept == whole(200_000)


def test_what_lies_between_head_and_tail_is_counted_to_the_byte(
    workers: Workers,
) -> None:
    cap = 300_000
    workers.start(log_max_bytes_per_run=cap)
    job = enqueueing.enqueue(ManyLines(lines=200_000))
    wait_for(job)
    wait_until(
        lambda: text(job).endswith("line 199999\n"), message=lambda: text(job)[-200:]
    )

    all_of_it, [gap] = whole(200_000), LogChunk.objects.filter(stream="system")
    chunks = LogChunk.objects.filter(job_id=job.pk, stream="stdout").order_by("seq")
    head = "".join(chunk.text for chunk in chunks if chunk.seq < gap.seq)
    tail = "".join(chunk.text for chunk in chunks if chunk.seq > gap.seq)

    assert all_of_it.startswith(head)
    assert all_of_it.endswith(tail)
    assert cap - 64 * 1024 < len(head) <= cap
    assert 0 < len(tail) <= TAIL_BYTES
    missing = len(all_of_it) - len(head) - len(tail)
    assert gap.text == f"… {missing} bytes of output were not kept …\n"
