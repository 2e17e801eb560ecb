"""What has the supervisor asked of its duties that is not done yet?

Duties may die with any request half done, so each is kept until served and asked again
of the next ones; all requests may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

from .channel import Message
from .child import Child


class Errands:
    """The requests that wait for their answer."""

    def __init__(self, duties: Callable[[], Child | None]) -> None:
        self._duties = duties
        self._open: dict[UUID, Message] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def ask(self, **request: str | bool | dict[str, object] | None) -> None:
        """Ask for something, now or as soon as there are duties."""
        name = uuid4()
        self._open[name] = {**request, "id": str(name)}
        if duties := self._duties():
            duties.control.send(**self._open[name])

    def ask_again(self, duties: Child) -> None:
        """Ask new duties for all that is open."""
        for request in self._open.values():
            duties.control.send(**request)

    def served(self, request: Message) -> bool:
        """Note that a request was served; false when it was served before."""
        return self._open.pop(UUID(request["id"]), None) is not None
