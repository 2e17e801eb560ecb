"""Does anybody see a request fail while ten people deploy, break and roll back at once?

Two workers of two slots, the real runtime. Each agent's one address is polled from its
first deployment on; what answers is each version in its turn, and never a broken one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from django.db import connections

from buildqueue.builds import submission
from buildqueue.builds.submission import Submission
from buildqueue.executors import cleaning
from buildqueue.models import Agent, AgentDeployment, BuildJob, JobEvent
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from tests.support.jobs import wait_for
from tests.support.probing import Prober

from .hosting import Host, agent_zip, ask, deployments_of, done, versions_of

pytestmark = pytest.mark.slow

USERS = 10
LONG = 600.0  # for a job to have its turn and end
BROKEN = (
    ("start_failed", "sys.exit(7)"),
    ("health_timeout", "time.sleep(600)"),
    ("health_timeout", "BaseHTTPRequestHandler.send_response = refuse"),
)
REFUSE = """
def refuse(answer, status):
    answer.send_response_only(500)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody with an agent."""

    number: int

    @property
    def actor(self) -> Actor:
        """Return them as a caller."""
        return Actor(label=f"user {self.number}", id=str(self.number))

    def upload(self) -> Submission:
        """Submit the first version."""
        return submission.submit_upload(
            owner_id=str(self.number),
            caller=self.actor,
            name=f"agent-{self.number}",
            source=agent_zip("1.0.0"),
            version="1.0.0",
        )

    def update(self, agent: Agent, version: str, before: str = "") -> BuildJob:
        """Submit the next version."""
        source = agent_zip(version, before=before)
        return submission.submit_update(
            agent, caller=self.actor, source=source, version=version
        ).job

    def go_to(self, agent: Agent, version: str) -> BuildJob:
        """Ask for an earlier version, or for a later one again."""
        return submission.submit_rollback(agent, caller=self.actor, version=version).job

    def live(self, probers: dict[Agent, Prober]) -> None:
        """Deploy, update twice, break it, go back and forward again."""
        try:
            made = self.upload()
            done(made.job, timeout=LONG)
            agent = Agent.objects.get(pk=made.agent.pk)
            probers[agent] = prober = Prober(str(agent.url))
            prober.start()
            done(self.update(agent, "1.0.1"), timeout=LONG)
            done(self.update(agent, "1.0.2"), timeout=LONG)
            code, fault = BROKEN[self.number % len(BROKEN)]
            broken = self.update(agent, "1.0.3", before=f"{REFUSE}{fault}")
            ended = wait_for(broken, timeout=LONG)
            assert (ended.status, ended.error_code) == (JobStatus.FAILED, code)
            done(self.go_to(agent, self.earlier), timeout=LONG)
            done(self.go_to(agent, "1.0.2"), timeout=LONG)
        finally:
            connections.close_all()

    @property
    def earlier(self) -> str:
        """Return the version that they go back to."""
        return ("1.0.0", "1.0.1")[self.number % 2]


def test_no_request_fails_while_ten_users_deploy_at_once(here: Host) -> None:
    for _ in range(2):
        here.worker("--slots", "2", health_tries=20)
    users = [User(number=number) for number in range(1, USERS + 1)]
    probers: dict[Agent, Prober] = {}

    try:
        with ThreadPoolExecutor(USERS) as everybody:
            lives = [everybody.submit(user.live, probers) for user in users]
        for life in lives:
            life.result()
    finally:
        for prober in probers.values():
            prober.stop()

    for agent, prober in probers.items():
        assert not prober.failed, _story(agent, prober)
        assert prober.asked > 20
    for user, agent in zip(users, _by_owner(probers), strict=True):
        expected = ["1.0.0", "1.0.1", "1.0.2", user.earlier, "1.0.2"]
        assert probers[agent].versions == expected, _story(agent, probers[agent])
        _assert_well(here, agent, probers[agent].url)
    assert len(here.keepers()) == USERS
    assert here.work_folders() == []
    assert not BuildJob.objects.filter(completed_at=None).exists()
    cleaning.remove_unneeded(older_than_seconds=0)
    assert {len(here.bundles_of(agent)) for agent in probers} == {3}


def _by_owner(probers: dict[Agent, Prober]) -> list[Agent]:
    return sorted(probers, key=lambda agent: int(agent.owner_id))


def _assert_well(here: Host, agent: Agent, address: str) -> None:
    agent.refresh_from_db()
    assert (agent.status, agent.version, agent.url) == ("running", "1.0.2", address)
    assert ask(agent)["version"] == "1.0.2"
    versions = {"1.0.0": "archived", "1.0.1": "archived", "1.0.2": "active"}
    assert versions_of(agent) == versions
    running = AgentDeployment.objects.get(agent=agent, status="running")
    others = sorted(deployments_of(agent))
    assert others == ["failed", "running", "stopped", "stopped", "stopped", "stopped"]
    status = here.status(agent)
    assert [one.instance_id for one in status.instances] == [str(running.pk)]
    assert here.scratch_of(agent) == [str(running.pk)]
    assert {each.pid for each in here.processes_of(agent.pk)} <= here.tree_of(agent)
    jobs = BuildJob.objects.filter(agent=agent).order_by("created_at")
    assert [job.status for job in jobs] == ["done"] * 3 + ["failed"] + ["done"] * 2


def _story(agent: Agent, prober: Prober) -> str:
    """Return what happened to the agent and its address, in the order of time."""
    events = JobEvent.objects.filter(job__agent=agent).order_by("pk")
    told = [
        (event.created_at, f"{event.job.kind} {event.kind} {event.title}")
        for event in events.select_related("job")
    ]
    lines = sorted([*told, *((at, f"FAILED {what}") for at, what in prober.failed)])
    head = f"{agent.name} at {prober.url}: {prober.asked} requests, "
    head += f"versions {prober.versions}"
    return "\n".join([head, *(f"{at:%H:%M:%S.%f} {what}" for at, what in lines)])
