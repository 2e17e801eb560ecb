"""How does a test get a row? Always one that every constraint takes."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Permission
from django.utils import timezone

from buildqueue.models import Agent, AgentBuild, BuildJob, JobRun, McpConnector
from buildqueue.states import FINAL, JobStatus

from .host.jobs import Probe


def make_user(name: str = "owner", *permissions: str, **options: Any) -> AbstractUser:
    """Make a user with the named permissions of the app."""
    user = get_user_model().objects.create_user(name, password="secret", **options)
    for codename in permissions:
        user.user_permissions.add(
            Permission.objects.get(
                codename=codename, content_type__app_label="buildqueue"
            )
        )
    return user


def make_job(status: str = JobStatus.PENDING, **values: Any) -> BuildJob:
    """Make a job in any status, with what the checks want beside it."""
    values.setdefault("payload", Probe().model_dump(mode="json"))
    if status == JobStatus.IN_PROGRESS:
        values.setdefault("attempt", 1)
        values.setdefault("lease_id", uuid.uuid4())
        values.setdefault("lease_until", timezone.now() + timedelta(minutes=1))
        values.setdefault("slot", uuid.uuid4())
        values.setdefault("worker", uuid.uuid4())
        values.setdefault("picked_at", timezone.now())
    if status in FINAL:
        values.setdefault("completed_at", timezone.now())
    job = BuildJob.objects.create(status=status, **values)
    job.refresh_from_db()
    if status == JobStatus.IN_PROGRESS:
        make_run(job)
    return job


def make_run(job: BuildJob, **values: Any) -> JobRun:
    """Make the open run of a running job."""
    values.setdefault("id", job.lease_id or uuid.uuid4())
    values.setdefault("attempt", max(job.attempt, 1))
    values.setdefault("worker", job.worker or uuid.uuid4())
    values.setdefault("slot", job.slot or uuid.uuid4())
    values.setdefault("serial_key", job.serial_key)
    return JobRun.objects.create(job=job, owner_id=job.owner_id, **values)


def make_agent(owner_id: str = "1", **values: Any) -> Agent:
    """Make an agent."""
    values.setdefault("name", f"agent-{uuid.uuid4().hex[:8]}")
    agent = Agent.objects.create(owner_id=owner_id, **values)
    agent.refresh_from_db()
    return agent


def make_build(agent: Agent, **values: Any) -> AgentBuild:
    """Make a queued build of an agent."""
    values.setdefault("version_tag", "1.0.0")
    build = AgentBuild.objects.create(agent=agent, **values)
    build.refresh_from_db()
    return build


def make_connector(owner_id: str = "1", **values: Any) -> McpConnector:
    """Make an uploaded connector."""
    values.setdefault("name", f"connector-{uuid.uuid4().hex[:8]}")
    values.setdefault("provider_type", "mcp_server")
    values.setdefault("source_kind", "uploaded_build")
    values.setdefault("build_status", "pending")
    connector = McpConnector.objects.create(owner_id=owner_id, **values)
    connector.refresh_from_db()
    return connector
