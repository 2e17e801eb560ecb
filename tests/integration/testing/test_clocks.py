"""Is the frozen clock the only one that the connection sees, and is it given back?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import DataError, connection, transaction
from django.db.models.functions import Now

from buildqueue.models import BuildJob
from buildqueue.models.expressions import ClockTimestamp
from buildqueue.queue import enqueueing
from buildqueue.testing import drain, frozen_clock
from buildqueue.testing.clocks import SCHEMA
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.support.scratch import url_of

THEN = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)


def _asked(job: BuildJob) -> set[datetime]:
    jobs = BuildJob.objects.filter(pk=job.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT now(), statement_timestamp(), clock_timestamp()")
        raw = cursor.fetchone()
    return {*raw, *jobs.values_list(Now(), ClockTimestamp())[0]}


@pytest.mark.django_db
def test_every_way_to_ask_for_the_time_finds_the_frozen_moment() -> None:
    job = make_job()

    with frozen_clock(THEN) as clock:
        assert _asked(job) == {THEN}
        clock.advance(1.5)
        assert _asked(job) == {THEN + timedelta(seconds=1.5)}

    assert min(_asked(job)) > THEN + timedelta(days=365)


@pytest.mark.django_db
def test_an_inner_clock_gives_the_outer_one_back() -> None:
    with frozen_clock(THEN) as outer:
        with frozen_clock(THEN + timedelta(days=9)) as inner:
            assert inner.now == THEN + timedelta(days=9)
        assert outer.now == THEN


@pytest.mark.django_db
def test_a_failed_transaction_does_not_keep_the_clock() -> None:
    def fail() -> None:
        with transaction.atomic(), frozen_clock(THEN), connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    with pytest.raises(DataError):
        fail()

    assert min(_asked(make_job())) > THEN + timedelta(days=365)


def test_committed_it_is_seen_by_nobody_else_and_leaves_nothing(
    committed: None,
) -> None:
    url = url_of(connection.settings_dict["NAME"])
    with frozen_clock(THEN):
        job = enqueueing.enqueue(Probe())
        with psycopg.connect(url) as other:
            [(seen,)] = other.execute("SELECT now()").fetchall()
        drain()

    job.refresh_from_db()
    assert (job.status, job.completed_at) == ("done", THEN)
    assert seen > THEN + timedelta(days=365)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", [SCHEMA])
        assert cursor.fetchone() == (0,)
        cursor.execute("SHOW search_path")
        assert SCHEMA not in cursor.fetchone()[0]


@pytest.mark.django_db
def test_a_moment_without_a_time_zone_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="time zone"),
        frozen_clock(THEN.replace(tzinfo=None)),
    ):
        raise AssertionError("never reached")
