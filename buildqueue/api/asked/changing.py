"""What may a request bring that changes what is there, and builds nothing?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, model_validator

from ..problems import refused
from ..reading import Body
from .fields import Given, Reason, Text
from .parts import GIT_ALSO


class Nothing(Body):
    """A verb that needs no more than its address."""


class Scale(Body):
    """How many copies there should be."""

    replicas: int
    reason: Reason = ""


class Grant(Body):
    """To whom an agent is opened: a user by name or key, or everybody."""

    user: Given | None = None
    user_id: Given | None = None
    public: bool = False
    can_manage: bool = False

    @model_validator(mode="after")
    def _to_one(self) -> Grant:
        check_one(self.user, self.user_id, public=self.public)
        if self.public and self.can_manage:
            why = "a user may manage the agent; everybody sees it"
            raise refused("invalid_field", why, {"can_manage": why})
        return self


def check_one(user: str | None, user_id: str | None, *, public: bool) -> None:
    """Refuse to open or close an agent to nobody, and to more than one."""
    if (user is not None) + (user_id is not None) + public != 1:
        why = "one of 'user', 'user_id' and 'public'"
        raise refused("missing_field", f"name {why}", {"user": why})


class Secret(Body):
    """The value of a secret."""

    value: str = Field(repr=False)


class Watch(Body):
    """A branch or tag to follow."""

    ALSO: ClassVar[Mapping[str, str]] = GIT_ALSO
    url: Given
    ref: Given
    mode: Text = "propose"
    bump: Text = "patch"
    interval_minutes: int = 10
    secret: Given | None = None
