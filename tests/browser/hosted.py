"""What the build system keeps on an ordinary day: an agent with a history, a connector.

Codes, reasons and hints are those of this version.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from buildqueue.builds import secrets
from buildqueue.builds.failures import hint_of
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    AgentGrant,
    AgentVersion,
    McpConnector,
    McpConnectorBuild,
    McpConnectorTool,
    OwnerSecret,
    Proposal,
    Source,
    SourceWatch,
)
from tests.factories import make_build, make_connector, make_user

from . import shown

REPOSITORY = "https://github.com/acme/search-api"
COMMITS = ("9f2b41c7d05e8a36b1c2d3e4f5061728394a5b6c", "41c7d05e8a36b1c2d3e4f506172839")
NO_MATCH = (
    "pip could not install requirements.txt\n"
    "ERROR: Could not find a version that satisfies the requirement rapidfuzz>=9\n"
    "ERROR: No matching distribution found for rapidfuzz>=9"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """The rows whose pages are pictured."""

    failed: AgentBuild
    watch: SourceWatch
    proposal: Proposal
    connector: McpConnector
    secret: OwnerSecret
    source: Source


def build(agent: Agent, owner: str) -> Hosted:
    """Give the agent a history, and its owner a connector and a secret."""
    Agent.objects.filter(pk=agent.pk).update(
        url="http://127.0.0.1:20147/",
        replicas=2,
        resources={"memory_mb": 512, "cpus": 1.0, "processes": 128},
        writable=True,
        writable_path="data",
        secrets_env=secrets.encrypt_env(owner, {"OPENAI_API_KEY": "x", "INDEX": "y"}),
        image=f"local:{agent.pk}/2.3.0@sha256:{shown.DIGEST}",
        description="Answers questions about the catalogue.",
    )
    _versions(agent)
    watch, proposal = _followed(agent, owner)
    AgentGrant.objects.create(
        agent=agent,
        grant_type="user",
        grantee_id=str(make_user("grace").pk),
        can_manage=True,
    )
    secrets.set_secret(owner, "GIT_TOKEN", "s3cr3t")
    source = Source.objects.create(
        key=f"sources/9f/{shown.DIGEST}.zip", sha256=shown.DIGEST, size=48_211
    )
    return Hosted(
        failed=_failed(agent, owner),
        watch=watch,
        proposal=proposal,
        connector=_connector(owner),
        secret=OwnerSecret.objects.get(),
        source=source,
    )


def _versions(agent: Agent) -> None:
    for days, version, status, told in (
        (21, "2.1.0", "archived", "the first on the new index"),
        (9, "2.2.0", "archived", None),
        (2, "2.3.0", "active", "answers in the language of the question"),
    ):
        moment = shown.ago(days=days)
        made = make_build(
            agent,
            version_tag=version,
            status="success",
            phase="clean",
            created_at=moment,
            completed_at=moment + timedelta(seconds=48),
        )
        AgentVersion.objects.create(
            agent=agent,
            build=made,
            version=version,
            status=status,
            is_active=status == "active",
            can_rollback=status == "archived",
            changelog=told,
            created_at=moment,
        )
        AgentDeployment.objects.create(
            agent=agent,
            build=made,
            status={"2.1.0": "crashed", "2.2.0": "stopped"}.get(version, "running"),
            host="builder-1",
            replicas=2 if status == "active" else 1,
            restart_count=5 if version == "2.1.0" else 0,
            crash_reason="it ended by itself with exit code 137, five times in a row"
            if version == "2.1.0"
            else None,
            created_at=moment,
        )
    AgentVersion.objects.create(agent=agent, version="2.3.1", status="building")


def _failed(agent: Agent, owner: str) -> AgentBuild:
    return make_build(
        agent,
        version_tag="2.2.1",
        status="failed",
        phase="build",
        error_code="dependency_failed",
        error_msg=NO_MATCH,
        hint=hint_of("dependency_failed"),
        exit_code=1,
        host="builder-1",
        triggered_by=owner,
        github_url=REPOSITORY,
        source_ref="main",
        commit_hash=COMMITS[0],
        source_secret="GIT_TOKEN",
        source_key=f"sources/9f/{shown.DIGEST}.tar.gz",
        source_sha256=shown.DIGEST,
        source_size=48_211,
        logs=f"Collecting rapidfuzz>=9 (from -r requirements.txt)\n{NO_MATCH}\n",
        created_at=shown.ago(days=4),
        completed_at=shown.ago(days=4) + timedelta(seconds=31),
    )


def _followed(agent: Agent, owner: str) -> tuple[SourceWatch, Proposal]:
    watch = SourceWatch.objects.create(
        agent=agent,
        git_url=REPOSITORY,
        ref="main",
        secret_name="GIT_TOKEN",
        last_commit=COMMITS[0],
        checked_at=shown.ago(minutes=6),
        due_at=timezone.now() + timedelta(minutes=4),
        created_by=owner,
    )
    SourceWatch.objects.create(
        agent=agent,
        git_url=REPOSITORY,
        ref="next",
        mode="update",
        status="paused",
        failures=5,
        last_error="the repository has no branch or tag next",
        pause_reason="5 checks in a row failed, the last one: the repository has no "
        "branch or tag next",
        checked_at=shown.ago(hours=3),
        created_by=owner,
    )
    proposal = Proposal.objects.create(
        id=uuid.uuid4(),
        watch=watch,
        agent=agent,
        commit_hash=COMMITS[0],
        summary=f"main at {COMMITS[0][:12]} of {REPOSITORY}",
        created_at=shown.ago(minutes=6),
    )
    return watch, proposal


def _connector(owner: str) -> McpConnector:
    connector = make_connector(
        owner,
        name="catalogue-tools",
        build_status="running",
        url="http://127.0.0.1:20161/mcp",
        host="builder-1",
        restart_count=1,
        container_image_tag=f"local:catalogue-tools@sha256:{shown.DIGEST}",
        build_secrets_env=secrets.encrypt_env(owner, {"CATALOGUE_KEY": "x"}),
    )
    for name, told in (
        ("find_product", "Find products by words, price and stock."),
        ("price_history", "The prices of a product in the last 90 days."),
    ):
        McpConnectorTool.objects.create(
            connector=connector, name=name, description=told
        )
    McpConnectorBuild.objects.create(
        connector=connector,
        owner_id=owner,
        version_tag="1.0.0",
        status="success",
        phase="clean",
        completed_at=timezone.now(),
    )
    return connector
