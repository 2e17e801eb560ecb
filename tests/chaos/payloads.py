"""Which jobs does the chaos test run, and which effects must each leave when it is done?"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

Answer = Literal["count", "refuse_once", "hang_up"]


class Steps(BaseModel, extra="forbid", frozen=True):
    """A few steps, each with an effect in the database."""

    kind: Literal["chaos_steps"] = "chaos_steps"
    steps: int = 3
    seconds: float = 0.3  # each step takes
    fails_until: int = 0  # attempts up to this one fail after their first step


class Effect(BaseModel, extra="forbid", frozen=True):
    """An effect outside between two in the database."""

    kind: Literal["chaos_effect"] = "chaos_effect"
    seconds: float = 0.3
    answer: Answer = "count"  # what the outside world does


class Family(BaseModel, extra="forbid", frozen=True):
    """Has children do the work, and their children, and gathers what they did."""

    kind: Literal["chaos_family"] = "chaos_family"
    children: int = 2
    generations: int = 1  # below it
    seconds: float = 0.3
    on_failure: Literal["fail", "collect"] = "collect"


class Approval(BaseModel, extra="forbid", frozen=True):
    """An effect outside that a person must approve."""

    kind: Literal["chaos_approval"] = "chaos_approval"
    seconds: float = 0.3


class Question(BaseModel, extra="forbid", frozen=True):
    """Asks a person, who may leave it open for ever."""

    kind: Literal["chaos_question"] = "chaos_question"
    left_open: bool = False


class Sleeper(BaseModel, extra="forbid", frozen=True):
    """Takes its time, comes back a few times, and has one effect at the end."""

    kind: Literal["chaos_sleeper"] = "chaos_sleeper"
    seconds: float = 5.0
    snoozes: int = 1


def expected(payload: Mapping[str, Any]) -> frozenset[str]:
    """Return the effects in the database that a job of this payload must leave."""
    match payload["kind"]:
        case "chaos_steps":
            return frozenset(f"step {n}" for n in range(payload["steps"]))
        case "chaos_effect":
            return frozenset({"before", "after"})
        case "chaos_family":
            return frozenset({"gathered"})
        case "chaos_approval":
            return frozenset({"approved"})
        case "chaos_question":
            return frozenset({"answered"})
        case "chaos_sleeper":
            return frozenset({"slept"})
    raise ValueError(f"{payload['kind']} is no kind of the chaos test")


def drawn(rng: random.Random) -> BaseModel:
    """Draw a job."""
    seconds = round(rng.uniform(0.05, 0.8), 2)
    match rng.choices(range(6), weights=(34, 22, 10, 10, 8, 16))[0]:
        case 0:
            fails = rng.choices((0, 1), weights=(85, 15))[0]
            return Steps(steps=rng.randint(1, 5), seconds=seconds, fails_until=fails)
        case 1:
            answers: tuple[Answer, ...] = ("count", "refuse_once", "hang_up")
            answer = rng.choices(answers, weights=(88, 9, 3))[0]
            return Effect(seconds=seconds, answer=answer)
        case 2:
            return Family(
                children=rng.randint(1, 3),
                generations=rng.choices((1, 2), weights=(80, 20))[0],
                seconds=seconds,
                on_failure=rng.choice(("fail", "collect")),
            )
        case 3:
            return Approval(seconds=seconds)
        case 4:
            return Question(left_open=rng.random() < 0.1)
        case _:
            return Sleeper(
                seconds=round(rng.uniform(1.0, 8.0), 1), snoozes=rng.randint(0, 2)
            )
