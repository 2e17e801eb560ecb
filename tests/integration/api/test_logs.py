"""Can a reader follow a log, lose the thread, and find it again?"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client
from django.utils import timezone

from buildqueue.models import BuildJob, JobRun, LogChunk
from buildqueue.queue import logs

from ...factories import make_agent, make_build, make_job, make_run
from .conftest import assert_problem
from .test_jobs import used_token

pytestmark = pytest.mark.django_db


def write(job: BuildJob, attempt: int, *seqs: int) -> None:
    run = uuid.uuid5(job.pk, str(attempt))
    logs.write(
        LogChunk(
            job_id=job.pk,
            run_id=run,
            attempt=attempt,
            seq=seq,
            stream="stdout",
            text=f"line {attempt}.{seq}\n",
        )
        for seq in seqs
    )


def follow(
    client: Client, address: str, since: str, limit: int
) -> tuple[list[str], str]:
    """Read on until a page comes that is not full."""
    seen: list[str] = []
    while True:
        page = client.get(address, {"since": since, "limit": limit}).json()
        seen += [chunk["position"] for chunk in page["chunks"]]
        since = page["next"]
        if len(page["chunks"]) < limit:
            return seen, since


def ended(owner: AbstractUser, **values: Any) -> BuildJob:
    values.setdefault("completed_at", timezone.now() - timedelta(minutes=1))
    return make_job("done", owner_id=str(owner.pk), **values)


def test_a_chunk_tells_where_it_stands(owner: AbstractUser, as_owner: Client) -> None:
    job = ended(owner)
    write(job, 1, 1)

    page = as_owner.get(f"/api/jobs/{job.pk}/log").json()

    chunk = page["chunks"][0]
    assert chunk.pop("created_at")
    assert chunk == {
        "position": "1.1",
        "attempt": 1,
        "seq": 1,
        "stream": "stdout",
        "step": None,
        "text": "line 1.1\n",
    }
    assert (page["next"], page["finished"]) == ("1.1", True)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_reader_who_comes_back_finds_no_gap_and_no_repeat(
    limit: int, owner: AbstractUser, as_owner: Client
) -> None:
    job = make_job("in_progress", owner_id=str(owner.pk))
    address = f"/api/jobs/{job.pk}/log"

    write(job, 1, *range(1, 12))
    first, since = follow(as_owner, address, "0.0", limit)
    write(job, 1, 12)
    write(job, 2, 1, 2)
    second, since = follow(as_owner, address, since, limit)
    write(job, 2, 3)
    third, _ = follow(as_owner, address, since, limit)

    wanted = [f"1.{n}" for n in range(1, 13)] + ["2.1", "2.2", "2.3"]
    assert first + second + third == wanted


def test_a_log_that_may_still_grow_is_asked_for_again(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_job("in_progress", owner_id=str(owner.pk))
    write(job, 1, 1, 2)
    address = f"/api/jobs/{job.pk}/log"

    whole = as_owner.get(address)
    page = as_owner.get(address, {"limit": 2})

    assert whole.json()["finished"] is False
    assert int(whole.headers["Retry-After"]) >= 1
    assert 0 < whole.json()["look_again_ms"] < 1000
    assert page.json()["look_again_ms"] == 0
    assert "Retry-After" not in page.headers  # there is more at once


def test_a_log_is_finished_when_all_of_it_was_read(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = ended(owner)
    write(job, 1, 1, 2, 3)
    address = f"/api/jobs/{job.pk}/log"

    assert as_owner.get(address, {"limit": 2}).json()["finished"] is False
    rest = as_owner.get(address, {"since": "1.2", "limit": 2})
    assert rest.json()["finished"] is True
    assert "Retry-After" not in rest.headers


def test_a_log_is_not_finished_the_moment_its_job_ends(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = ended(owner, completed_at=timezone.now())

    page = as_owner.get(f"/api/jobs/{job.pk}/log").json()

    assert page["finished"] is False  # the last lines may be on their way


@pytest.mark.parametrize(
    ("minutes", "finished"), [(5, False), (-5, True), (None, False)]
)
def test_a_log_is_not_finished_while_a_process_may_live(
    minutes: int | None, finished: bool, owner: AbstractUser, as_owner: Client
) -> None:
    job = ended(owner)
    expires = timezone.now() + timedelta(minutes=minutes) if minutes else None
    make_run(job, expires_at=expires)

    page = as_owner.get(f"/api/jobs/{job.pk}/log").json()

    assert page["finished"] is finished
    JobRun.objects.update(ended_at=timezone.now(), outcome="interrupted")
    assert as_owner.get(f"/api/jobs/{job.pk}/log").json()["finished"] is True


@pytest.mark.parametrize("since", ["x", "1.x", "1.2.3", "-1.0", "1.-1", "9" * 30, ""])
def test_a_position_that_is_none_is_refused(
    since: str, owner: AbstractUser, as_owner: Client
) -> None:
    response = as_owner.get(f"/api/jobs/{ended(owner).pk}/log", {"since": since})

    assert "since" in assert_problem(response, 422, "invalid_parameter")["fields"]


@pytest.mark.parametrize("limit", ["0", "501", "x", "1e3", "-1"])
def test_a_limit_out_of_range_is_refused(
    limit: str, owner: AbstractUser, as_owner: Client
) -> None:
    response = as_owner.get(f"/api/jobs/{ended(owner).pk}/log", {"limit": limit})

    assert "limit" in assert_problem(response, 422, "invalid_parameter")["fields"]


def test_reading_a_log_takes_three_queries(
    owner: AbstractUser, django_assert_num_queries: Any
) -> None:
    job = make_job("in_progress", owner_id=str(owner.pk))
    write(job, 1, *range(1, 50))
    client = used_token(owner)

    with django_assert_num_queries(3):  # token, job, chunks
        assert client.get(f"/api/jobs/{job.pk}/log").status_code == 200


def test_the_log_of_a_build_is_its_jobs(owner: AbstractUser, as_owner: Client) -> None:
    agent = make_agent(str(owner.pk))
    job = ended(owner, agent=agent)
    build = make_build(agent, job=job)
    write(job, 1, 1, 2)

    of_build = as_owner.get(f"/api/builds/{build.pk}/log").json()

    assert of_build == as_owner.get(f"/api/jobs/{job.pk}/log").json()
    assert len(of_build["chunks"]) == 2


def test_the_log_of_a_build_whose_job_is_gone_is_empty(
    owner: AbstractUser, as_owner: Client
) -> None:
    build = make_build(make_agent(str(owner.pk)))

    page = as_owner.get(f"/api/builds/{build.pk}/log").json()

    assert page == {
        "chunks": [],
        "next": "0.0",
        "finished": True,
        "look_again_ms": None,
    }
