"""Is the order of a run's output kept when it is longer than what is kept of it?"""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

from buildqueue.models import LogChunk
from buildqueue.worker.logpump import LogPump


def test_a_small_last_piece_does_not_overtake_the_tail(settings: Any) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "LOG_MAX_BYTES_PER_RUN": 100}
    pump, slot, told = LogPump(), uuid4(), list[LogChunk]()
    pump.subscribe(told.append)
    out, write = os.pipe()
    err, unused = os.pipe()
    pump.attach(slot, out, err)
    pump.begin(slot, uuid4(), uuid4(), 1)

    for piece in ("a" * 89 + "\n", "b" * 59 + "\n", "last\n"):
        os.write(write, piece.encode())
        pump._drain(slot)
    pump.end(slot)
    pump.detach(slot)
    os.close(write)
    os.close(unused)

    shown = "".join(chunk.text for chunk in told if chunk.stream == "stdout")
    assert shown == "a" * 89 + "\n" + "b" * 59 + "\nlast\n"
