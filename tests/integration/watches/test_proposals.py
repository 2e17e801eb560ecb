"""Row M42: is a proposal that a person accepts done exactly once, whatever happens?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from buildqueue.builds import proposals
from buildqueue.exceptions import Refused
from buildqueue.executors.watching import repair_accepted
from buildqueue.models import Agent, AgentBuild, BuildJob, Proposal
from buildqueue.queue.outcomes import Actor
from tests.support.gitrepository import Repository
from tests.support.killing import MOST, all_or_nothing, killed_before
from tests.support.races import race

from .conftest import ANNA, MakeWatch, built_from, look, updates

pytestmark = pytest.mark.usefixtures("committed")

BEN = Actor(label="ben", id="2")


@pytest.fixture
def proposal(make_watch: MakeWatch, repo: Repository, agent: Agent) -> Proposal:
    """Have one proposal, open."""
    built_from(agent, repo.head())
    watch = make_watch(bump="major")
    repo.commit({"main.py": "print(2)\n"})
    look(watch)
    return Proposal.objects.get()


def accepted_by_hand(proposal: Proposal) -> None:
    """Mark it as accepted as another system would: without a job."""
    Proposal.objects.filter(pk=proposal.pk).update(
        status="accepted", decided_by="carl", decided_at=timezone.now()
    )


def done_once(proposal: Proposal) -> bool:
    """Tell whether it is accepted and has exactly its one job."""
    found = Proposal.objects.get(pk=proposal.pk)
    jobs = updates(found.agent)
    return found.status == "accepted" and [job.pk for job in jobs] == [found.job_id]


def test_accepting_queues_the_update_and_says_who_did(
    proposal: Proposal, agent: Agent
) -> None:
    job = proposals.accept(proposal, actor=BEN)

    assert done_once(proposal)
    source = job.payload["source"]
    assert source["commit"] == proposal.commit_hash
    assert (job.payload["new_version"], job.owner_id) == ("2.0.0", "2")
    found = Proposal.objects.get()
    assert (found.decided_by, found.decided_at is not None) == ("ben", True)


def test_accepting_again_returns_the_same_job(proposal: Proposal) -> None:
    first = proposals.accept(proposal, actor=ANNA)

    assert proposals.accept(proposal, actor=BEN).pk == first.pk
    assert done_once(proposal)
    assert Proposal.objects.get().decided_by == "anna"


def test_eight_who_accept_at_once_get_one_job(proposal: Proposal) -> None:
    jobs = race(8, lambda number: proposals.accept(proposal, actor=ANNA).pk)

    assert len(set(jobs)) == 1
    assert done_once(proposal)


def test_whoever_is_killed_while_accepting_has_accepted_or_not(
    proposal: Proposal,
) -> None:
    all_or_nothing(
        lambda: proposals.accept(proposal, actor=ANNA), lambda: done_once(proposal)
    )


def test_of_one_who_accepts_and_one_who_dismisses_at_once_one_decides(
    proposal: Proposal,
) -> None:
    def decide(number: int) -> str:
        try:
            if number:
                proposals.accept(proposal, actor=ANNA)
            else:
                proposals.dismiss(proposal, actor=BEN)
        except Refused as refused:
            return refused.code
        return "taken"

    assert sorted(race(2, decide)) == ["already_decided", "taken"]
    found = Proposal.objects.get()
    assert len(updates(found.agent)) == (1 if found.status == "accepted" else 0)


@pytest.mark.parametrize("status", ["dismissed", "superseded"])
def test_what_is_closed_cannot_be_accepted(
    proposal: Proposal, agent: Agent, status: str
) -> None:
    Proposal.objects.update(status=status, decided_at=timezone.now())

    with pytest.raises(Refused) as refused:
        proposals.accept(proposal, actor=ANNA)

    assert (refused.value.code, refused.value.status) == ("already_decided", 409)
    assert updates(agent) == []


def test_what_is_accepted_cannot_be_dismissed(proposal: Proposal) -> None:
    proposals.accept(proposal, actor=ANNA)

    with pytest.raises(Refused) as refused:
        proposals.dismiss(proposal, actor=ANNA)

    assert refused.value.code == "already_decided"


def test_dismissing_twice_is_dismissing(proposal: Proposal) -> None:
    proposals.dismiss(proposal, actor=ANNA)

    assert proposals.dismiss(proposal, actor=BEN).decided_by == "anna"


def test_an_update_that_is_refused_leaves_the_proposal_open(
    proposal: Proposal, agent: Agent
) -> None:
    Agent.objects.update(deleted_at=timezone.now())

    with pytest.raises(Refused) as refused:
        proposals.accept(proposal, actor=ANNA)

    assert refused.value.code == "agent_deleted"
    assert Proposal.objects.get().status == "open"


# -- accepted, and nothing was done ------------------------------------------------------


def test_the_duty_does_what_was_accepted_and_not_queued_once(
    proposal: Proposal,
) -> None:
    accepted_by_hand(proposal)

    assert repair_accepted() == 1
    assert repair_accepted() == 0

    assert done_once(proposal)
    assert Proposal.objects.get().decided_by == "carl"


def test_duties_and_people_at_once_do_it_once(proposal: Proposal) -> None:
    accepted_by_hand(proposal)
    acts: list[Callable[[], object]] = [
        repair_accepted,
        lambda: proposals.accept(proposal, actor=ANNA),
    ]

    race(8, lambda number: acts[number % 2]())

    assert done_once(proposal)


def test_a_duty_that_is_killed_at_every_statement_does_it_once(
    proposal: Proposal,
) -> None:
    accepted_by_hand(proposal)

    for number in range(1, MOST):
        if not killed_before(number, repair_accepted):
            break
        assert len(updates(proposal.agent)) <= 1

    assert done_once(proposal)


@pytest.mark.parametrize("status", ["open", "dismissed", "superseded"])
def test_the_duty_leaves_what_nobody_has_accepted(
    proposal: Proposal, agent: Agent, status: str
) -> None:
    decided = None if status == "open" else timezone.now()
    Proposal.objects.update(status=status, decided_at=decided)

    assert repair_accepted() == 0
    assert updates(agent) == []


def test_what_was_done_is_not_done_again_when_its_job_is_no_longer_kept(
    proposal: Proposal, agent: Agent
) -> None:
    job = proposals.accept(proposal, actor=ANNA)
    builds = AgentBuild.objects.count()
    # As retention does, by the database's own cascade.
    BuildJob.objects.filter(pk=job.pk)._raw_delete("default")
    assert Proposal.objects.get().job_id is None

    assert repair_accepted() == 0
    with pytest.raises(Refused) as refused:
        proposals.accept(proposal, actor=ANNA)

    assert refused.value.code == "already_decided"
    assert AgentBuild.objects.count() == builds


def test_what_is_refused_keeps_the_duty_from_nothing_else(
    proposal: Proposal,
    make_watch: MakeWatch,
    agent: Agent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepted_by_hand(proposal)
    second = Proposal.objects.create(
        watch=proposal.watch,
        agent=agent,
        commit_hash="b" * 40,
        status="accepted",
        decided_at=timezone.now() + timedelta(seconds=1),
    )
    submit = proposals.submit

    def refuse(watch: object, commit: str, **options: object) -> BuildJob:
        if commit == proposal.commit_hash:
            raise Refused("quota", "too many jobs wait", status=429)
        return submit(watch, commit, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(proposals, "submit", refuse)

    assert repair_accepted() == 1

    first, other = (Proposal.objects.get(pk=each.pk) for each in (proposal, second))
    assert (first.job_id, other.job_id is None) == (None, False)
