"""Is a child made once for its key, is it really one, and is each key its own?"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import transaction

from buildqueue.exceptions import InvalidOption, NotStorable
from buildqueue.models import BuildJob, Checkpoint
from buildqueue.queue import enqueueing
from buildqueue.queue.context import Context
from tests.host.jobs import Probe
from tests.support.attempts import next_attempt, run_of
from tests.support.jobs import story
from tests.support.races import PATIENCE, race

pytestmark = pytest.mark.usefixtures("committed")


def _children(ctx: Context) -> list[Any]:
    return [child.pk for child in ctx.children()]


def test_long_keys_are_told_apart_up_to_their_last_character(ctx: Context) -> None:
    first = ctx.spawn("k" * 189 + "A", Probe())
    second = ctx.spawn("k" * 189 + "B", Probe())

    assert _children(ctx) == [first, second]
    with run_of(next_attempt(ctx)) as later:
        assert later.spawn("k" * 189 + "B", Probe()) == second


@pytest.mark.parametrize(
    "key", ["", "k" * 191, "nul \x00", "half \ud800", 5, None, ["a"]]
)
def test_a_key_that_cannot_be_kept_is_refused(ctx: Context, key: Any) -> None:
    with pytest.raises(NotStorable, match="a child's key must"):
        ctx.spawn(key, Probe())

    assert _children(ctx) == []
    assert story(ctx.job) == []


def test_a_child_and_a_step_have_no_name_in_common(ctx: Context) -> None:
    with pytest.raises(NotStorable, match="must not begin with"), ctx.step("child:x"):
        pytest.fail("the body ran")

    made = ctx.spawn("x", Probe())
    with ctx.step("x") as step:
        assert not step.done

    assert _children(ctx) == [made]


@pytest.mark.parametrize("inside", [True, False])
def test_two_threads_that_spawn_under_one_key_get_one_child(
    ctx: Context, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, real = threading.Barrier(2), enqueueing.enqueue

    def enqueue(*args: Any, **options: Any) -> BuildJob:
        both.wait(PATIENCE)
        return real(*args, **options)

    def spawn(number: int) -> Any:
        if not inside:
            return ctx.spawn("x", Probe())
        with ctx.step(f"step {number}"):
            return ctx.spawn("x", Probe())

    monkeypatch.setattr(enqueueing, "enqueue", enqueue)

    first, second = race(2, spawn)

    assert [first] == [second] == _children(ctx)
    kinds = [kind for kind, _ in story(ctx.job)]
    assert kinds.count("child_spawned") == 1


@pytest.mark.parametrize("how", ["return", "replace", "unheard of"])
def test_a_stranger_is_not_taken_for_a_child_nor_away_for_one(
    ctx: Context, how: Any
) -> None:
    stranger = enqueueing.enqueue(Probe(), dedupe_key="one", owner_id="stranger")

    with pytest.raises(InvalidOption, match="on_duplicate"):
        ctx.spawn("x", Probe(), dedupe_key="one", on_duplicate=how)

    stranger.refresh_from_db()
    assert (stranger.status, _children(ctx)) == ("pending", [])
    assert not Checkpoint.objects.exists()


def test_a_child_that_is_refused_leaves_the_step_usable(ctx: Context) -> None:
    with ctx.step("make") as step:
        with pytest.raises(InvalidOption), transaction.atomic():
            ctx.spawn("x", Probe(), on_duplicate="return")
        step.result = str(ctx.spawn("x", Probe()))

    assert [str(pk) for pk in _children(ctx)] == [step.result]
