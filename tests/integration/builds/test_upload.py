"""Does an uploaded zip become a running agent, and a bad one leave what was?"""

from __future__ import annotations

from buildqueue.builds import sources
from buildqueue.executors import base, host
from buildqueue.models import (
    AgentDeployment,
    AgentVersion,
    BuildJob,
    JobEvent,
    LogChunk,
)
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor

from .conftest import ANNA, Crash, World, agent_of, build_of, job_of, upload, version_at


def test_an_upload_ends_with_a_running_agent(world: World) -> None:
    submitted = upload(version="1.2.0", ports=[9000], changelog="first")

    world.work()

    job, build, agent = job_of(submitted), build_of(submitted), agent_of(submitted)
    assert (job.status, build.status, agent.status) == ("done", "success", "running")
    assert build.image_reference == agent.image
    assert str(agent.pk) in build.image_reference
    assert (agent.version, version_at(agent.url)) == ("1.2.0", "1.2.0")
    version = AgentVersion.objects.get(agent=agent)
    assert (version.status, version.is_active, version.build_id) == (
        "active",
        True,
        build.pk,
    )
    assert version.changelog == "first"
    deployment = AgentDeployment.objects.get(agent=agent)
    assert (deployment.status, deployment.spec_ports) == ("running", [9000])
    assert (deployment.host, deployment.owner_id) == (host.host_id(), "1")
    assert deployment.service_url == agent.url


def test_the_agent_shows_what_its_card_says(world: World) -> None:
    submitted = upload()

    world.work()

    agent = agent_of(submitted)
    assert agent.display_name == "fake"
    assert agent.skills == [{"id": "echo"}]
    assert agent.capabilities == {"streaming": True}
    assert agent.metadata["card"]["name"] == "fake"


def test_every_phase_stands_in_the_timeline_and_the_last_on_the_build(
    world: World,
) -> None:
    submitted = upload()

    world.work()

    finished = JobEvent.objects.filter(job=submitted.job, kind="step_finished")
    assert list(finished.order_by("id").values_list("title", flat=True)) == [
        "fetch",
        "verify",
        "build",
        "publish",
        "deploy",
        "health",
        "activate",
        "clean",
    ]
    assert build_of(submitted).phase == "clean"
    assert not LogChunk.objects.exists()  # the worker's pump writes them, not the job


def test_a_second_upload_switches_the_same_address(world: World) -> None:
    first = upload(version="1.0.0")
    world.work()
    address = agent_of(first).url

    second = upload(version="1.1.0")
    assert second.previous_version == "1.0.0"
    assert second.job.requires == f"host:{host.host_id()}"
    world.work()

    agent = agent_of(second)
    assert (agent.pk, agent.url, agent.version) == (first.agent.pk, address, "1.1.0")
    assert version_at(address) == "1.1.0"
    old = AgentVersion.objects.get(agent=agent, version="1.0.0")
    new = AgentVersion.objects.get(agent=agent, version="1.1.0")
    assert (old.status, old.is_active, old.can_rollback) == ("archived", False, True)
    assert (new.status, new.previous_version) == ("active", "1.0.0")
    statuses = agent.deployments.order_by("created_at").values_list("status", flat=True)
    assert list(statuses) == ["stopped", "running"]


def test_an_unhealthy_version_leaves_the_old_one_answering(world: World) -> None:
    first = upload(version="1.0.0")
    world.work()

    broken = upload(version="1.1.0", program="# cannot open its files\nUNHEALTHY\n")
    world.work()

    job, build, agent = job_of(broken), build_of(broken), agent_of(broken)
    assert (job.status, job.error_code) == ("failed", "health_timeout")
    assert (build.status, build.error_code, build.phase) == (
        "failed",
        "health_timeout",
        "health",
    )
    assert "cannot open its files" in (build.error_msg or "")
    assert (agent.status, agent.version) == ("running", "1.0.0")
    assert agent.image == build_of(first).image_reference
    assert version_at(agent.url) == "1.0.0"
    failed = AgentDeployment.objects.get(agent=agent, build=build)
    assert failed.status == "failed"
    assert failed.last_logs == "cannot open its files"
    assert not AgentVersion.objects.filter(agent=agent, version="1.1.0").exists()
    assert _running_instances(world) == 1


def test_an_instance_that_exits_fails_the_build(world: World) -> None:
    submitted = upload(program="# bad import\nEXITS\n")

    world.work()

    assert job_of(submitted).error_code == "start_failed"
    assert "exited with code 3" in (job_of(submitted).error_msg or "")
    assert agent_of(submitted).status == "failed"


def test_a_failed_first_build_keeps_its_history(world: World) -> None:
    submitted = upload(program="BUILD_FAILS")

    world.work()

    assert (job_of(submitted).status, build_of(submitted).status) == (
        "failed",
        "failed",
    )
    assert build_of(submitted).error_code == "build_failed"
    assert agent_of(submitted).status == "failed"
    assert not AgentDeployment.objects.exists()


def test_what_may_pass_is_tried_again_until_the_allowance_is_spent(
    world: World,
) -> None:
    submitted = upload(program="BUILD_UNAVAILABLE")

    runs = world.work()

    assert len(runs) == 3
    assert job_of(submitted).error_code == "max_attempts_exhausted"
    build = build_of(submitted)
    assert (build.status, build.error_code) == ("failed", "index_unreachable")


def test_a_version_is_free_again_after_its_build_failed(world: World) -> None:
    upload(version="1.0.0", program="BUILD_FAILS")
    world.work()

    again = upload(version="1.0.0")
    world.work()

    assert job_of(again).status == "done"


def test_a_retry_builds_again_and_reserves_its_version_again(world: World) -> None:
    submitted = upload(version="2.0.0", program="UNHEALTHY")
    world.work()

    verbs.retry(submitted.job.pk, actor=ANNA)
    assert build_of(submitted).status == "queued"
    assert build_of(submitted).completed_at is None
    assert agent_of(submitted).status == "deploying"
    assert AgentVersion.objects.get(version="2.0.0").status == "building"
    world.work()

    assert build_of(submitted).status == "failed"
    assert not AgentVersion.objects.exists()


def test_a_missing_or_damaged_source_fails_with_its_code(world: World) -> None:
    gone, damaged = upload("gone", program="# 1"), upload("damaged", program="# 2")
    sources.delete(gone.build.source_key or "")
    place = sources.storage()
    with open(place.path(damaged.build.source_key or ""), "ab") as file:
        file.write(b"x")

    world.work()

    assert job_of(gone).error_code == "source_missing"
    assert job_of(damaged).error_code == "source_damaged"


def test_no_work_folder_and_no_candidate_is_left(world: World) -> None:
    upload("good")
    upload("bad", program="UNHEALTHY")
    upload("worse", program="BUILD_FAILS")

    world.work()

    assert list(base.work_root().iterdir()) == []
    assert _running_instances(world) == 1


def test_a_killed_run_leaves_no_candidate_after_its_job_was_cancelled(
    world: World,
) -> None:
    submitted = upload()

    def cancel_and_die() -> None:
        verbs.cancel(submitted.job.pk, actor=ANNA)
        assert _running_instances(world) == 1
        raise Crash

    world.interfere("promote", cancel_and_die)
    world.work()

    assert _running_instances(world) == 0
    assert BuildJob.objects.get(kind="instance_end").status == "done"
    assert AgentDeployment.objects.get().status == "failed"


def test_the_caller_is_recorded_and_the_owner_owns(world: World) -> None:
    submitted = upload(owner="owner-b", caller=Actor(label="root", id="99"))

    world.work()

    assert job_of(submitted).owner_id == "99"
    assert build_of(submitted).triggered_by == "99"
    assert agent_of(submitted).owner_id == "owner-b"
    assert AgentDeployment.objects.get().owner_id == "owner-b"


def test_two_owners_may_use_one_name_and_version(world: World) -> None:
    one = upload(owner="1", version="1.0.0")
    other = upload(owner="2", version="1.0.0", caller=Actor(label="bert", id="2"))

    world.work()

    assert agent_of(one).pk != agent_of(other).pk
    assert agent_of(one).image != agent_of(other).image
    assert agent_of(one).url != agent_of(other).url


def test_a_payload_of_ours_holds_no_environment(world: World) -> None:
    submitted = upload()

    assert "env" not in submitted.job.payload
    assert submitted.job.payload["version"] == 1


def _running_instances(world: World) -> int:
    seen = world.runtime.workloads()
    return sum(one.state == "running" for each in seen for one in each.instances)


def test_an_unhealthy_agent_that_printed_nul_fails_at_once_with_its_words(
    world: World,
) -> None:
    submitted = upload(program="# EXITS a\0b\n")

    world.work()

    job = job_of(submitted)
    assert (job.status, job.error_code, job.attempt) == ("failed", "start_failed", 1)
    deployment = AgentDeployment.objects.get()
    assert deployment.last_logs == "EXITS a\N{SYMBOL FOR NULL}b"


def test_a_key_that_leads_out_of_the_storage_is_a_missing_source(world: World) -> None:
    submitted = upload()
    payload = job_of(submitted).payload
    payload["source"]["key"] = "../secret_key"
    BuildJob.objects.filter(pk=submitted.job.pk).update(payload=payload)

    world.work()

    job = job_of(submitted)
    assert (job.status, job.error_code, job.attempt) == ("failed", "source_missing", 1)
