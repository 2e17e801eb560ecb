"""What may a person have an agent follow?"""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from buildqueue.builds import watches
from buildqueue.exceptions import Refused
from buildqueue.models import Agent, SourceWatch
from buildqueue.queue.outcomes import Actor
from tests.support.gitrepository import Repository
from tests.support.gitserver import GitServer

from .conftest import ANNA, MakeWatch, checks, now_is

pytestmark = pytest.mark.usefixtures("committed")


def test_a_watch_is_as_it_was_asked_for_and_due_at_once(make_watch: MakeWatch) -> None:
    watch = make_watch(mode="update", bump="minor", interval_minutes=3)

    assert (watch.mode, watch.bump, watch.interval_minutes) == ("update", "minor", 3)
    assert (watch.status, watch.created_by, watch.failures) == ("active", "1", 0)
    assert watch.due_at <= timezone.now()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"url": "file:///etc"}, "url"),
        ({"url": "https://elsewhere.example/a.git"}, "url"),
        ({"ref": "--upload-pack=x"}, "ref"),
        ({"ref": ""}, "ref"),
        ({"ref": "a" * 40}, "ref"),
        ({"mode": "deploy"}, "mode"),
        ({"bump": "huge"}, "bump"),
        ({"interval_minutes": 0}, "interval_minutes"),
        ({"interval_minutes": 10_081}, "interval_minutes"),
        ({"secret": "UNKNOWN"}, "secret"),
    ],
    ids=str,
)
def test_what_cannot_be_followed_is_refused_by_its_field(
    make_watch: MakeWatch, wrong: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused) as refused:
        make_watch(**wrong)

    assert list(refused.value.fields) == [field]
    assert not SourceWatch.objects.exists()


def test_a_branch_is_followed_once(make_watch: MakeWatch) -> None:
    make_watch()

    with pytest.raises(Refused) as refused:
        make_watch(mode="update")

    assert (refused.value.code, refused.value.status) == ("watch_exists", 409)


def test_an_agent_follows_a_number_of_branches(
    make_watch: MakeWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "MOST_WATCHES", 2)
    make_watch(ref="a")
    make_watch(ref="b")

    with pytest.raises(Refused) as refused:
        make_watch(ref="c")

    assert refused.value.code == "too_many_watches"


def test_a_deleted_agent_follows_nothing(make_watch: MakeWatch, agent: Agent) -> None:
    watch = watches.pause_watch(make_watch(), actor=ANNA)
    Agent.objects.update(deleted_at=timezone.now())

    acts = (make_watch, lambda: watches.resume_watch(watch, actor=ANNA))
    for act in (*acts, lambda: watches.check_now(watch, actor=ANNA)):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.code == "agent_deleted"


def test_pausing_and_resuming_twice_changes_nothing_more(make_watch: MakeWatch) -> None:
    watch = watches.pause_watch(make_watch(), actor=ANNA, reason="why")
    again = watches.pause_watch(watch, actor=Actor(label="ben"), reason="other")
    assert again.pause_reason == watch.pause_reason

    watches.resume_watch(watch, actor=ANNA)
    due_at = now_is(watch).due_at
    assert watches.resume_watch(watch, actor=ANNA).due_at == due_at


def test_a_paused_watch_is_not_looked_at_by_request(make_watch: MakeWatch) -> None:
    watch = watches.pause_watch(make_watch(), actor=ANNA)

    with pytest.raises(Refused) as refused:
        watches.check_now(watch, actor=ANNA)

    assert refused.value.code == "watch_paused"
    assert checks() == []


def test_what_was_removed_is_gone_for_every_verb(make_watch: MakeWatch) -> None:
    watch = make_watch()
    watches.remove_watch(watch, actor=ANNA)
    watches.remove_watch(watch, actor=ANNA)

    for verb in (watches.pause_watch, watches.resume_watch, watches.check_now):
        with pytest.raises(Refused) as refused:
            verb(watch, actor=ANNA)
        assert (refused.value.code, refused.value.status) == ("not_found", 404)


def test_the_server_is_not_asked_before_there_is_a_check(
    make_watch: MakeWatch, server: GitServer, repo: Repository
) -> None:
    make_watch()

    assert server.requests == []
