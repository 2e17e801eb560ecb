"""How do several real processes do the same thing at the same moment, again and again?

Started once, each with its own interpreter and its own connection; in each round so many
of them meet at a barrier and act. What one of them raises ends the race.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

PATIENCE = 120.0
Act = Callable[[Any], Any]  # a function of a module, which the processes import


class Racers:
    """The processes, from the first to the last."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def race(self, count: int, what: Any) -> list[Any]:
        """Have so many of them act at once; return their answers."""
        for pipe in self._pipes[:count]:
            pipe.send((count, what))
        return [_answer(pipe) for pipe in self._pipes[:count]]


def _answer(pipe: Connection) -> Any:
    assert pipe.poll(PATIENCE), "a racer does not answer"
    went_well, answer = pipe.recv()
    assert went_well, answer
    return answer


@contextmanager
def racers(most: int, act: Act) -> Iterator[Racers]:
    """Start so many processes that do `act(what)` in each round; end them."""
    from .processes import environment  # models, which a new process has not loaded

    spawn = multiprocessing.get_context("spawn")
    barriers = {count: spawn.Barrier(count) for count in range(2, most + 1)}
    name, env = f"{act.__module__}:{act.__qualname__}", environment()
    ours, processes = [], []
    for _ in range(most):
        mine, its = spawn.Pipe()
        process = spawn.Process(
            target=_take_part, args=(its, barriers, name, env), daemon=True
        )
        process.start()
        its.close()
        ours.append(mine)
        processes.append(process)
    try:
        for pipe in ours:
            _answer(pipe)  # it is connected
        yield Racers(ours)
    finally:
        for pipe in ours:
            pipe.close()
        for process in processes:
            process.join(PATIENCE)
            process.kill()
            process.close()


def _take_part(
    pipe: Connection, barriers: dict[int, Barrier], name: str, env: Mapping[str, str]
) -> None:
    os.environ.update(env)
    import django

    django.setup()
    from django.db import connection

    module, _, function = name.partition(":")
    act: Act = getattr(import_module(module), function)
    connection.ensure_connection()
    pipe.send((True, None))
    while True:
        try:
            count, what = pipe.recv()
        except EOFError:
            return
        try:
            barriers[count].wait(PATIENCE)
            pipe.send((True, act(what)))
        except Exception:  # told to whoever watches the race
            pipe.send((False, traceback.format_exc()))
