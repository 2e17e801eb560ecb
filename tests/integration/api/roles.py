"""Who may ask, and for what? An owner with one of everything, and clients of every role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.test import Client

from buildqueue.builds import grants
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    AgentGrant,
    AgentVersion,
    BuildJob,
    JobAction,
    McpConnector,
    OwnerSecret,
    Proposal,
    SourceWatch,
)
from buildqueue.queue.outcomes import Actor
from buildqueue.queue.questions import Field

from ...factories import make_agent, make_build, make_connector, make_job, make_user
from ...support.decisions import make_action, make_question
from .conftest import token_client

GIT = "https://github.com/anna/greeter"


@dataclass(frozen=True, kw_only=True)
class Things:
    """What belongs to the owner."""

    agent: Agent
    build: AgentBuild
    job: BuildJob  # pending
    failed: BuildJob
    paused: BuildJob
    asking: BuildJob
    action: JobAction
    connector: McpConnector
    watch: SourceWatch
    proposal: Proposal
    friend: AbstractUser  # to whom the agent is opened

    def address(self, template: str) -> str:
        fit = {"retry": self.failed, "resume": self.paused, "answer": self.asking}
        job = fit.get(template.rpartition("/")[2], self.job)
        return template.format(
            action_id=self.action.pk,
            agent_id=self.agent.pk,
            build_id=self.build.pk,
            connector_id=self.connector.pk,
            job_id=job.pk,
            proposal_id=self.proposal.pk,
            version="0.8.0",
            watch_id=self.watch.pk,
        )

    def request(self, method: str, template: str) -> dict[str, Any]:
        """Return what a request brings, where it needs more than its address."""
        bodies: dict[tuple[str, str], Any] = {
            ("post", "answer"): {"values": {"name": "Anna"}},
            ("post", "approve"): self._decision,
            ("post", "deny"): self._decision,
            ("post", "deploy"): {"version": "0.8.0"},
            ("post", "scale"): {"replicas": 2},
            ("patch", "env"): {"COLOR": "blue"},
            ("put", "grants"): {"public": True},
            ("post", "watches"): {"url": GIT, "ref": "main"},
            ("post", "builds"): {"agent_id": str(self.agent.pk), "url": GIT},
        }
        if (method, template.rpartition("/")[2]) == ("delete", "grants"):
            return {"query_params": {"user": self.friend.get_username()}}
        body = bodies.get((method, template.rpartition("/")[2]), {})
        if method in ("get", "delete"):
            return {}
        return {"data": body, "content_type": "application/json"}

    @property
    def _decision(self) -> dict[str, str]:
        return {"content_hash": self.action.content_hash, "reason": "x"}


def make_things(owner: AbstractUser) -> Things:
    """Make one of everything for an owner."""
    key = str(owner.pk)
    agent = make_agent(key, name="mine", status="stopped", version="1.0.0")
    # An operator asked for it: it is the owner's all the same, by its agent.
    job = make_job(owner_id="somebody else", agent=agent)
    build = make_build(agent, job=job, github_url=GIT)
    AgentDeployment.objects.create(agent=agent, build=build, host="machine-1")
    make_versions(agent)
    connector = make_connector(
        key, build_status="running", url="http://127.0.0.1:20001", host="machine-1"
    )
    watch = SourceWatch.objects.create(agent=agent, git_url=GIT, ref="v1")
    proposal = Proposal.objects.create(watch=watch, agent=agent, commit_hash="a" * 40)
    friend = make_user("friend")
    AgentGrant.objects.create(agent=agent, grant_type="user", grantee_id=str(friend.pk))
    fields = {"name": Field()}
    return Things(
        agent=agent,
        build=build,
        job=job,
        failed=make_job("failed", owner_id=key),
        paused=make_job("paused", owner_id=key),
        asking=make_question("Who?", fields, owner_id="somebody else", agent=agent),
        action=make_action(job),
        connector=connector,
        watch=watch,
        proposal=proposal,
        friend=friend,
    )


def make_versions(agent: Agent) -> None:
    """Make the active version of an agent, one that it had before, and one that waits."""
    for version, status in (
        ("1.0.0", "active"),
        ("0.9.0", "archived"),
        ("0.8.0", "pushed"),
    ):
        AgentVersion.objects.create(
            agent=agent,
            version=version,
            status=status,
            is_active=status == "active",
            can_rollback=status == "archived",
        )


VIEW = (
    "view_agent",
    "view_agentversion",
    "view_agentdeployment",
    "view_agentbuild",
    "view_buildjob",
    "view_log",
    "view_jobaction",
    "view_payload",
    "view_sourcewatch",
    "view_proposal",
    "view_mcpconnector",
    "view_mcpconnectorbuild",
)
CHANGE = (
    "cancel_buildjob",
    "retry_buildjob",
    "pause_buildjob",
    "answer_buildjob",
    "decide_jobaction",
    "deploy_agent",
    "change_agent",
    "stop_agent",
    "delete_agent",
    "add_sourcewatch",
    "change_sourcewatch",
    "delete_sourcewatch",
    "decide_proposal",
    "change_mcpconnector",
    "delete_mcpconnector",
)


def logged_in(user: AbstractUser) -> Client:
    """Return a client with the user's session."""
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def open_to(agent: Agent, user: AbstractUser, *, can_manage: bool = False) -> Client:
    """Open the agent to a user; return their client."""
    grants.open_to_user(agent, str(user.pk), can_manage=can_manage, actor=ACTOR)
    return logged_in(user)


def _passer_by(agent: Agent) -> Client:
    grants.open_to_everybody(agent, actor=ACTOR)
    return logged_in(make_user("passer-by"))


def _superuser() -> Client:
    return logged_in(make_user("root", is_staff=True, is_superuser=True))


ACTOR = Actor(label="owner", id="1")
# role -> client, given the owner and the agent
ROLES: dict[str, Callable[[AbstractUser, Agent], Client]] = {
    "anonymous": lambda owner, agent: Client(raise_request_exception=False),
    "owner": lambda owner, agent: logged_in(owner),
    "owner's token": lambda owner, agent: token_client(owner),
    "another owner": lambda owner, agent: logged_in(make_user("another")),
    "another's token": lambda owner, agent: token_client(make_user("another")),
    "passer-by": lambda owner, agent: _passer_by(agent),
    "guest": lambda owner, agent: open_to(agent, make_user("guest")),
    "manager": lambda owner, agent: open_to(agent, make_user("m"), can_manage=True),
    "staff": lambda owner, agent: logged_in(make_user("staff", is_staff=True)),
    "viewer": lambda owner, agent: logged_in(make_user("viewer", *VIEW)),
    "changer who cannot view": lambda owner, agent: logged_in(make_user("c", *CHANGE)),
    "operator": lambda owner, agent: logged_in(make_user("op", *VIEW, *CHANGE)),
    "superuser": lambda owner, agent: _superuser(),
}


def state() -> dict[str, Any]:
    """Return all that a refused request could have changed."""
    models = (
        Agent,
        AgentBuild,
        AgentDeployment,
        AgentGrant,
        AgentVersion,
        BuildJob,
        JobAction,
        McpConnector,
        OwnerSecret,
        Proposal,
        SourceWatch,
    )
    return {
        each.__name__: list(each.objects.order_by("pk").values()) for each in models
    }
