"""How does a test have a guardian? One is forked from the test's own process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import pytest

from buildqueue.worker.channel import Channel, Message
from buildqueue.worker.guardian import guard


@dataclass
class Watched:
    """A guardian made by a fork of the test's process."""

    watch: Channel
    pid: int  # the guardian's
    slot: int

    def report(self) -> Message:
        while (told := self.watch.next()) is not None:
            if "ended" in told:
                return told
        raise AssertionError("no report")

    def tree(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


Start = Callable[[Callable[[], None]], Watched]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Watched] = []

    def fork(slot_main: Callable[[], None]) -> Watched:
        ours, its = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                guard(Channel(its), slot_main, [])
            finally:
                os._exit(70)
        its.close()
        watch = Channel(ours)
        told = watch.next()
        assert told is not None
        made.append(Watched(watch, pid, told["pid"]))
        return made[-1]

    yield fork
    for watched in made:
        watched.watch.close()
        os.waitpid(watched.pid, 0)
