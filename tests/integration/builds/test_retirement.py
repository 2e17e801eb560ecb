"""How are agents stopped and deleted, and what is left of them?"""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

from buildqueue.builds import results
from buildqueue.builds.retirement import delete_agent, stop_agent
from buildqueue.exceptions import Refused
from buildqueue.executors import host
from buildqueue.models import Agent, AgentDeployment, BuildJob, JobEvent, Worker
from buildqueue.queue import verbs

from .conftest import ANNA, Crash, World, agent_of, build_of, job_of, upload, version_at


def test_a_stopped_agent_runs_nothing_and_keeps_its_address(world: World) -> None:
    submitted = upload(version="1.0.0")
    world.work()
    address = agent_of(submitted).url

    (job,) = stop_agent(agent_of(submitted), actor=ANNA)
    assert job.requires == f"host:{host.host_id()}"
    world.work()

    assert agent_of(submitted).status == "stopped"
    assert version_at(address) is None
    assert AgentDeployment.objects.get().status == "stopped"
    upload(version="1.1.0")
    world.work()
    assert agent_of(submitted).url == address
    assert version_at(address) == "1.1.0"


def test_stopping_twice_is_one_job_while_it_is_open(world: World) -> None:
    submitted = upload()
    world.work()

    first = stop_agent(submitted.agent, actor=ANNA)
    second = stop_agent(submitted.agent, actor=ANNA)
    assert [job.pk for job in first] == [job.pk for job in second]
    world.work()

    assert stop_agent(submitted.agent, actor=ANNA) == []
    assert agent_of(submitted).status == "stopped"


def test_a_failed_upload_leaves_a_stopped_agent_stopped(world: World) -> None:
    submitted = upload()
    world.work()
    stop_agent(submitted.agent, actor=ANNA)
    world.work()

    upload(program="BUILD_FAILS")
    world.work()

    assert agent_of(submitted).status == "stopped"


def test_an_agent_that_never_ran_needs_no_job_to_stop(world: World) -> None:
    submitted = upload(program="BUILD_FAILS")
    world.work()

    assert stop_agent(submitted.agent, actor=ANNA) == []


def test_a_first_build_under_way_is_not_stopped_but_cancelled(world: World) -> None:
    submitted = upload()

    with pytest.raises(Refused) as refused:
        stop_agent(submitted.agent, actor=ANNA)

    assert (refused.value.code, refused.value.status) == ("agent_deploying", 409)


def test_a_deleted_agent_leaves_nothing_on_its_host(world: World) -> None:
    submitted = upload()
    world.work()
    address = agent_of(submitted).url

    (job,) = delete_agent(agent_of(submitted), actor=ANNA, reason="no longer needed")
    assert agent_of(submitted).deleted_at is not None
    world.work()

    job.refresh_from_db()
    assert (job.kind, job.status) == ("agent_delete", "done")
    assert world.runtime.workloads() == []
    assert world.builder.programs == {}
    assert version_at(address) is None
    assert agent_of(submitted).status == "stopped"
    assert AgentDeployment.objects.get().status == "stopped"
    assert build_of(submitted).status == "success"


def test_deleting_cancels_what_is_open(world: World) -> None:
    upload(version="1.0.0")
    world.work()
    waiting = upload(version="1.1.0")

    delete_agent(waiting.agent, actor=ANNA, reason="away with it")

    job = job_of(waiting)
    assert (job.status, job.error_msg) == ("cancelled", "away with it")
    assert build_of(waiting).status == "failed"


def test_deleting_twice_is_fine(world: World) -> None:
    submitted = upload()
    world.work()

    first = delete_agent(submitted.agent, actor=ANNA)
    again = delete_agent(submitted.agent, actor=ANNA)

    assert [job.pk for job in first] == [job.pk for job in again]
    world.work()
    assert BuildJob.objects.filter(kind="agent_delete").count() == 1


def test_an_agent_that_never_got_to_a_host_needs_no_job_to_go(world: World) -> None:
    submitted = upload()

    assert delete_agent(submitted.agent, actor=ANNA) == []
    assert job_of(submitted).status == "cancelled"
    assert agent_of(submitted).status == "failed"


def test_a_deleted_agent_refuses_stop_and_retry(world: World) -> None:
    submitted = upload(program="BUILD_FAILS")
    world.work()
    delete_agent(submitted.agent, actor=ANNA)

    with pytest.raises(Refused) as stopping:
        stop_agent(submitted.agent, actor=ANNA)
    with pytest.raises(Refused) as retrying:
        verbs.retry(submitted.job.pk, actor=ANNA)

    assert (stopping.value.code, stopping.value.status) == ("agent_deleted", 409)
    assert (retrying.value.code, retrying.value.status) == ("agent_deleted", 409)


def test_a_deletion_waits_until_the_process_of_a_cancelled_build_is_dead(
    world: World,
) -> None:
    upload(version="1.0.0")
    world.work()
    submitted = upload(version="1.1.0")
    claimable: list[object] = []

    def delete_and_look() -> None:
        delete_agent(submitted.agent, actor=ANNA)
        claimable.append(world.run_next())

    world.interfere("start", delete_and_look)
    world.work()

    assert claimable == [None]
    assert world.runtime.workloads() == []
    assert not Agent.objects.live().exists()


def _worker(seen_host: str, **age: int) -> None:
    Worker.objects.create(
        host="somewhere",
        pid=1,
        slots=1,
        version="1",
        capabilities=[f"host:{seen_host}"],
        heartbeat_at=timezone.now() - timedelta(**age),
    )


def test_an_agent_goes_back_to_its_host_while_a_worker_may_come_back(
    world: World,
) -> None:
    submitted = upload()
    world.work()

    assert upload().job.requires == f"host:{host.host_id()}"
    _worker("another", minutes=0)
    _worker(host.host_id(), minutes=5)
    assert upload().job.requires == f"host:{host.host_id()}"
    world.work()
    assert agent_of(submitted).status == "running"


def test_nothing_waits_for_a_host_that_is_gone(world: World) -> None:
    submitted = upload()
    world.work()
    _worker("another", minutes=0)
    _worker(host.host_id(), minutes=60)

    assert stop_agent(submitted.agent, actor=ANNA) == []
    assert agent_of(submitted).status == "stopped"
    assert upload().job.requires is None
    assert delete_agent(submitted.agent, actor=ANNA) == []


def test_the_reason_stands_in_the_timeline(world: World) -> None:
    submitted = upload()
    world.work()

    (job,) = stop_agent(submitted.agent, actor=ANNA, reason="too expensive")

    assert JobEvent.objects.filter(job=job, kind="note", title="too expensive").exists()


def test_deleting_in_the_middle_of_a_first_deployment_ends_the_candidate(
    world: World,
) -> None:
    submitted = upload()
    asked: list[BuildJob] = []

    def delete_and_die() -> None:
        asked.extend(delete_agent(submitted.agent, actor=ANNA))
        raise Crash

    world.interfere("promote", delete_and_die)
    world.work()

    assert [job.kind for job in asked] == ["agent_delete"]
    assert world.runtime.workloads() == []


def test_a_deletion_waits_for_a_job_that_is_just_ending(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both want the job and the agent; neither waits for the other in a circle."""
    submitted = upload()
    ending, deleting = threading.Event(), threading.Event()
    read = results.deployed

    def slow(job: BuildJob) -> results.Deployed:
        ending.set()
        assert deleting.wait(timeout=60)
        return read(job)

    def delete() -> None:
        assert ending.wait(timeout=60)
        try:
            threading.Timer(0.2, deleting.set).start()
            delete_agent(submitted.agent, actor=ANNA)
        finally:
            connections.close_all()

    monkeypatch.setattr(results, "deployed", slow)
    thread = threading.Thread(target=delete)
    thread.start()
    world.run_next()
    thread.join()

    assert job_of(submitted).status == "done"
    assert not job_of(submitted).hook_pending
    world.work()
    assert world.runtime.workloads() == []
    assert agent_of(submitted).deleted_at is not None
