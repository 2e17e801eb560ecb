"""Which slot asks for work, and when?

One slot of a worker asks at a time; a hit makes the next one ask, and a slot that has
ended a job asks again at once. Nobody asks when the worker stops or has started all the
jobs it may.
"""

from __future__ import annotations

from collections.abc import Callable

from .child import Child, SlotState


class Asking:
    """Knows whether there may be work, and sends slots to look."""

    def __init__(self, slots: Callable[[], list[Child]], most: int | None) -> None:
        self._slots, self._most = slots, most
        self.maybe = False  # there may be work that nobody has asked for
        self.stopped = False
        self.started = 0  # jobs

    def enough(self, more: int = 0) -> bool:
        """Tell whether as many jobs were started as the worker may."""
        return self._most is not None and self.started + more >= self._most

    def allowed(self) -> bool:
        """Tell whether one more slot may ask."""
        asking = sum(c.state is SlotState.CLAIMING for c in self._slots())
        return not self.stopped and not self.enough(asking)

    def ask(self, child: Child) -> None:
        """Have this slot look for work."""
        child.state = SlotState.CLAIMING
        child.control.send(claim=True)

    def one_asks(self) -> None:
        """Have one idle slot look, if there may be work and none looks already."""
        slots = self._slots()
        idle = [c for c in slots if c.state is SlotState.IDLE]
        asking = any(c.state is SlotState.CLAIMING for c in slots)
        if self.maybe and idle and not asking and self.allowed():
            self.maybe = False
            self.ask(idle[0])
