"""What is done about where a followed branch or tag is found?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from buildqueue.backends import git
from buildqueue.builds import submission, watches
from buildqueue.exceptions import Refused
from buildqueue.models import Agent, Proposal, SourceWatch
from tests.support.attempts import elsewhere
from tests.support.gitrepository import Repository

from .conftest import (
    ANNA,
    MakeWatch,
    built_from,
    look,
    now_is,
    proposed,
    run,
    updates,
)

pytestmark = pytest.mark.usefixtures("committed")


# -- the first look --------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["update", "propose"])
def test_the_commit_that_the_agent_was_built_from_is_nothing_new(
    make_watch: MakeWatch, repo: Repository, agent: Agent, mode: str
) -> None:
    built_from(agent, repo.head())
    watch = make_watch(mode=mode)

    check = look(watch)

    assert (check.status, check.result["did"]) == ("done", "nothing")
    assert now_is(watch).last_commit == repo.head()
    assert (updates(agent), proposed(watch)) == ([], [])


def test_an_agent_that_never_came_from_a_repository_is_updated_at_the_first_look(
    make_watch: MakeWatch, agent: Agent
) -> None:
    built_from(agent, None)

    check = look(make_watch(mode="update"))

    assert check.result["did"] == "update"
    assert [str(job.pk) for job in updates(agent)] == [check.result["job_id"]]


# -- a new commit ----------------------------------------------------------------------


def test_a_new_commit_is_one_update_to_exactly_that_commit(
    make_watch: MakeWatch, repo: Repository, agent: Agent
) -> None:
    built_from(agent, repo.head())
    watch = make_watch(mode="update", bump="minor", secret=None)
    look(watch)
    commit = repo.commit({"main.py": "print(2)\n"})

    look(watch)
    look(watch)

    [job] = updates(agent)
    source = job.payload["source"]
    assert (source["url"], source["ref"]) == (watch.git_url, "main")
    assert source["commit"] == commit
    assert (job.payload["new_version"], job.owner_id) == ("1.1.0", "1")
    found = now_is(watch)
    assert (found.last_commit, found.failures) == (commit, 0)
    assert found.checked_at is not None


def test_a_new_commit_is_one_proposal_and_a_newer_one_takes_its_place(
    make_watch: MakeWatch, repo: Repository, agent: Agent
) -> None:
    built_from(agent, repo.head())
    watch = make_watch()
    first = repo.commit({"main.py": "print(2)\n"})
    look(watch)
    look(watch)
    assert proposed(watch) == [(first, "open")]

    second = repo.commit({"main.py": "print(3)\n"})
    look(watch)

    assert proposed(watch) == [(first, "superseded"), (second, "open")]
    assert updates(agent) == []


def test_what_a_person_has_asked_for_meanwhile_is_not_asked_for_again(
    make_watch: MakeWatch, repo: Repository, agent: Agent
) -> None:
    built_from(agent, repo.head())
    watch = make_watch(mode="update")
    look(watch)
    commit = repo.commit({"main.py": "print(2)\n"})
    built_from(agent, commit)

    assert look(watch).result["did"] == "nothing"
    assert updates(agent) == []
    assert now_is(watch).last_commit == commit


# -- branches and tags that do odd things -------------------------------------------------


def test_a_forced_push_is_a_new_commit(
    make_watch: MakeWatch, repo: Repository, agent: Agent
) -> None:
    built_from(agent, repo.head())
    watch = make_watch(mode="update")
    look(watch)
    forced = repo.force_push({"main.py": "print('another past')\n"})

    look(watch)

    [job] = updates(agent)
    assert job.payload["source"]["commit"] == forced


def test_a_branch_that_goes_back_to_what_runs_closes_what_was_proposed(
    make_watch: MakeWatch, repo: Repository, agent: Agent
) -> None:
    old = repo.head()
    assert old is not None
    built_from(agent, old)
    watch = make_watch()
    new = repo.commit({"main.py": "print(2)\n"})
    look(watch)

    repo.branch("main", old)
    look(watch)

    assert proposed(watch) == [(new, "superseded")]
    repo.branch("main", new)
    look(watch)
    assert proposed(watch) == [(new, "open")], "it is there again"


def test_a_commit_that_was_dismissed_is_not_proposed_again(
    make_watch: MakeWatch, repo: Repository, agent: Agent
) -> None:
    old = repo.head()
    assert old is not None
    built_from(agent, old)
    watch = make_watch()
    new = repo.commit({"main.py": "print(2)\n"})
    look(watch)
    Proposal.objects.update(status="dismissed", decided_at=timezone.now())

    for commit in (old, new):
        repo.branch("main", commit)
        look(watch)

    assert proposed(watch) == [(new, "dismissed")]


@pytest.mark.parametrize("message", [None, "a release"], ids=["light", "annotated"])
def test_a_tag_that_moves_is_followed_to_its_commit(
    make_watch: MakeWatch, repo: Repository, agent: Agent, message: str | None
) -> None:
    built_from(agent, repo.tag("stable", message=message))
    watch = make_watch(ref="stable", mode="update")
    assert look(watch).result["did"] == "nothing"
    commit = repo.commit({"main.py": "print(2)\n"})
    assert look(watch).result["did"] == "nothing"

    repo.tag("stable", commit, message=message)
    look(watch)

    [job] = updates(agent)
    assert job.payload["source"]["commit"] == commit


def test_a_deleted_branch_is_a_failure_and_what_it_was_at_is_remembered(
    make_watch: MakeWatch, repo: Repository, agent: Agent
) -> None:
    commit = repo.head()
    built_from(agent, commit)
    repo.branch("work", commit or "")
    watch = make_watch(ref="work", mode="update")
    look(watch)
    repo.delete_branch("work")

    check = look(watch)

    assert check.status == "failed"
    assert check.error_code not in (None, "exception")
    found = now_is(watch)
    assert (found.failures, found.last_commit) == (1, commit)
    assert updates(agent) == []


# -- while somebody does something else ---------------------------------------------------


def test_a_watch_that_was_paused_before_its_check_is_not_looked_at(
    make_watch: MakeWatch, repo: Repository
) -> None:
    watch = make_watch()
    job = watches.check_now(watch, actor=ANNA)
    watches.pause_watch(watch, actor=ANNA)

    assert run(job).status == "cancelled"
    assert now_is(watch).checked_at is None


def _pause(watch: SourceWatch) -> None:
    watches.pause_watch(watch, actor=ANNA)


def _remove(watch: SourceWatch) -> None:
    watches.remove_watch(watch, actor=ANNA)


def _delete_agent(watch: SourceWatch) -> None:
    Agent.objects.update(deleted_at=timezone.now())


@pytest.mark.parametrize("mode", ["update", "propose"])
@pytest.mark.parametrize("end", [_pause, _remove, _delete_agent])
def test_a_watch_that_ends_while_its_remote_is_asked_does_nothing(
    make_watch: MakeWatch,
    agent: Agent,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[SourceWatch], None],
    mode: str,
) -> None:
    watch = make_watch(mode=mode)
    ask = git.resolve_ref

    def ask_and_end(*args: Any, **options: Any) -> str:
        commit = ask(*args, **options)
        elsewhere(end, watch)
        return commit

    monkeypatch.setattr(git, "resolve_ref", ask_and_end)

    check = look(watch)

    assert check.status == "cancelled"
    assert (updates(agent), proposed(watch)) == ([], [])
    left = SourceWatch.objects.filter(pk=watch.pk).first()
    assert left is None or (left.last_commit, left.failures) == (None, 0)


def test_the_check_of_a_watch_that_was_removed_ends(
    make_watch: MakeWatch, repo: Repository
) -> None:
    watch = make_watch()
    look(watch)
    assert proposed(watch) != []
    job = watches.check_now(watch, actor=ANNA)

    watches.remove_watch(watch, actor=ANNA)

    assert run(job).status == "cancelled"
    assert Proposal.objects.count() == 0


def test_an_update_that_is_refused_is_a_failure_and_its_commit_is_found_again(
    make_watch: MakeWatch,
    repo: Repository,
    agent: Agent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built_from(agent, repo.head())
    watch = make_watch(mode="update")
    look(watch)
    before = now_is(watch).last_commit
    commit = repo.commit({"main.py": "print(2)\n"})

    def refuse(*args: Any, **options: Any) -> None:
        raise Refused("too_many_jobs", "too many jobs wait", status=429)

    with monkeypatch.context() as patched:
        patched.setattr(submission, "submit_update", refuse)
        check = look(watch)

    assert (check.status, check.error_code) == ("failed", "too_many_jobs")
    failed = now_is(watch)
    assert (failed.failures, failed.last_error) == (1, "too many jobs wait")
    assert failed.last_commit == before
    look(watch)
    [job] = updates(agent)
    assert job.payload["source"]["commit"] == commit
