"""Is all that a job prints kept, in order, and its own?"""

from __future__ import annotations

from pathlib import Path

from buildqueue.models import LogChunk
from buildqueue.states import JobStatus
from tests.support.jobs import enqueue, runs, text, wait_for
from tests.support.processes import Workers
from tests.support.waiting import wait_until


def lines(count: int) -> str:
    return "".join(f"out {number}\n" for number in range(count))


def test_fifty_thousand_lines_are_kept_without_loss(workers: Workers) -> None:
    workers.start()
    job = enqueue("print", lines=50_000)
    other = enqueue("print", lines=3)
    assert wait_for(job).status == JobStatus.DONE
    expected = lines(50_000)
    wait_until(
        lambda: len(text(job)) >= len(expected + "err\n"),
        message=lambda: text(job)[-200:],
    )
    assert text(job, stream="stdout") == expected
    assert text(job, stream="stderr") == "err\n"
    numbers = list(LogChunk.objects.filter(job_id=job.pk).values_list("seq", flat=True))
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    wait_until(lambda: text(other) == lines(3) + "err\n", message=lambda: text(other))


def test_attempts_of_one_slot_are_told_apart(workers: Workers) -> None:
    workers.start("--slots", "1")
    first = enqueue("print", lines=2, label="first")
    second = enqueue("raise", until_attempt=1)
    third = enqueue("print", lines=1)
    for job in (first, second, third):
        wait_for(job)
    wait_until(lambda: text(third) == lines(1) + "err\n", message=lambda: text(third))
    assert text(first, 1) == lines(2) + "err\n"
    assert "ValueError: told to raise" in text(second, 1)
    assert text(second, 2) == ""
    assert not LogChunk.objects.filter(attempt=0).exists()


def test_beyond_the_limit_head_and_tail_are_kept(workers: Workers) -> None:
    workers.start(log_max_bytes_per_run=200_000)
    job = enqueue("print", lines=50_000)
    wait_for(job)
    wait_until(lambda: "out 49999\n" in text(job), message=lambda: text(job)[-200:])
    kept = text(job, stream="stdout")
    assert kept.startswith(lines(100))
    assert kept.endswith("out 49999\n")
    assert len(kept) < 300_000
    assert "were not kept" in text(job, stream="system")


def test_bytes_that_are_no_text_are_stored(workers: Workers) -> None:
    workers.start()
    job = enqueue("print_bytes")
    assert wait_for(job).status == JobStatus.DONE
    wait_until(lambda: text(job), message="no log")
    told = text(job)
    assert told.startswith("a\N{SYMBOL FOR NULL}b")
    assert "\N{REPLACEMENT CHARACTER}" in told
    assert told.endswith("\n")


def test_a_line_without_an_end_is_seen_while_the_job_runs(
    workers: Workers, tmp_path: Path
) -> None:
    workers.start()
    told = tmp_path / "told"
    job = enqueue("print_without_newline", path=str(told))
    wait_until(lambda: text(job) == "is it alive?", message=lambda: text(job))
    assert wait_for(job, JobStatus.IN_PROGRESS)
    told.touch()
    wait_for(job)
    assert text(job) == "is it alive?"


def test_a_thread_that_a_job_leaves_writes_into_no_other_log(workers: Workers) -> None:
    workers.start("--slots", "1")
    job, after = enqueue("leave_thread"), enqueue("print")
    wait_for(job)
    wait_for(after)
    assert runs(after)[0].slot != runs(job)[0].slot
    wait_until(lambda: text(after) == lines(1) + "err\n", message=lambda: text(after))


def test_what_a_job_leaves_running_is_ended_with_its_slot(workers: Workers) -> None:
    worker = workers.start("--slots", "1")
    job = enqueue("leave_children", label="leftover")
    after = enqueue("print")
    wait_for(job)
    wait_for(after)
    wait_until(lambda: not worker.find("leftover"), message=worker.output)
    wait_until(lambda: text(after) == lines(1) + "err\n", message=lambda: text(after))
