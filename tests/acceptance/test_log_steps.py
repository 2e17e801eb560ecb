"""Does each piece of a log tell which step printed it, whatever a job prints?"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from buildqueue.models import BuildJob, LogChunk
from buildqueue.queue import enqueueing, logmarks
from buildqueue.states import JobStatus
from tests.host.printing import PrintsInSteps
from tests.support.jobs import enqueue, text, wait_for
from tests.support.processes import Workers
from tests.support.waiting import wait_until

OUT = [
    (None, "before, without an end"),
    ("fetch; 50%", "==> fetch; 50%\nfetch out\n"),
    ("build", "==> build\nbuild out\nchild of build\nafter out\n"),
]
ERR = [
    ("fetch; 50%", "fetch err\n"),
    ("build", "build err\nerror of child\nafter err\n"),
]


def printed(job: BuildJob, stream: str) -> list[tuple[str | None, str]]:
    chunks = LogChunk.objects.filter(job_id=job.pk, stream=stream).order_by("seq")
    together = groupby(chunks, key=lambda chunk: chunk.step)
    return [(step, "".join(c.text for c in some)) for step, some in together]


def test_both_streams_are_labeled_with_the_step_that_printed(workers: Workers) -> None:
    workers.start()
    job = enqueueing.enqueue(PrintsInSteps())
    assert wait_for(job).status == JobStatus.DONE

    wait_until(
        lambda: (printed(job, "stdout"), printed(job, "stderr")) == (OUT, ERR),
        message=lambda: (printed(job, "stdout"), printed(job, "stderr")),
    )


def test_a_forged_mark_mislabels_its_own_run_and_nothing_else(workers: Workers) -> None:
    workers.start("--slots", "1")
    job = enqueueing.enqueue(PrintsInSteps(forged=True))
    after = enqueue("print")
    wait_for(job)
    wait_for(after)
    wait_until(lambda: "after err" in text(job), message=lambda: text(job))

    told = printed(job, "stdout")

    assert [step for step, _ in told] == [None, "fetch; 50%", "build", "forged"]
    foreign = logmarks.mark(job.pk, "forged")
    assert told[2][1].endswith(f"{foreign}of no run\n{logmarks.BEGINNING * 3}cut off\n")
    assert told[3][1] == "its own\nafter out\n"
    assert printed(job, "stderr") == ERR
    wait_until(lambda: text(after), message="no log")
    assert [step for step, _ in printed(after, "stdout")] == [None]


@pytest.mark.parametrize("spawned", [False, True])
def test_a_killed_run_is_told_in_its_step(workers: Workers, spawned: bool) -> None:
    apps: tuple[str, ...] = ("tests.host_threaded",) if spawned else ()
    workers.start(apps=apps)
    options: dict[str, Any] = {"max_attempts": 1}
    job = enqueue("die_in_step", options=options)
    assert wait_for(job).status == JobStatus.FAILED

    wait_until(
        lambda: "SIGKILL" in text(job, stream="system"), message=lambda: text(job)
    )
    [(step, told)] = printed(job, "system")
    assert step == "deadly"
    assert told == "[its process was ended by SIGKILL]\n"
