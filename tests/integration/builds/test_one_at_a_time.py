"""Do the jobs of one agent run one after the other, and those of others beside them?"""

from __future__ import annotations

from buildqueue.builds import running
from buildqueue.models import BuildJob

from .acting import fresh, rollback, update, versions_of
from .conftest import ANNA, World, job_of, upload, version_at


def test_what_is_asked_of_one_agent_at_once_is_done_in_order(world: World) -> None:
    upload(version="0.9.0")
    world.work()
    first = upload(version="1.0.0")
    world.work()
    asked = [
        update(first.agent, program="# 1\n").job,
        upload(version="2.0.0", program="# 2\n").job,
        rollback(fresh(first.agent), "0.9.0").job,
        running.restart_agent(fresh(first.agent), actor=ANNA),
        update(first.agent, program="UNHEALTHY").job,
    ]

    ran = world.work()

    assert [job.pk for job in ran] == [job.pk for job in asked]
    assert versions_of(first.agent) == {
        "0.9.0": "active",
        "1.0.0": "archived",
        "1.0.1": "archived",
        "2.0.0": "archived",
    }
    assert version_at(fresh(first.agent).url) == "0.9.0"


def test_while_one_runs_no_other_of_its_agent_is_claimed(world: World) -> None:
    first, second, other = upload(), upload(program="# 2\n"), upload(name="other")
    claimed: list[BuildJob | None] = []

    def claim_more() -> None:
        claimed.extend(world.run_next() for _ in range(2))

    world.interfere("build", claim_more)
    world.run_next()

    assert [job and job.pk for job in claimed] == [other.job.pk, None]
    assert (job_of(first).status, job_of(second).status) == ("done", "pending")
    world.work()
    assert job_of(second).status == "done"
