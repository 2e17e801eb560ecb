"""What may a request of a build or a deployment of an agent bring?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import Field, model_validator

from ...builds.submission import GitRequest
from ..problems import refused
from ..reading import Body
from .fields import Given, Id, Reason, Source, Text
from .parts import GIT_ALSO, UPLOAD_ALSO, Archive, Repository, Versioned, Wishes

GITHUB: Final = "https://github.com"

_SHORT_NAME = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


class Upload(Archive, Wishes):
    """A zip or tar, and the agent that it becomes."""

    ALSO: ClassVar[Mapping[str, str]] = UPLOAD_ALSO | {"agent_name": "name"}
    NEEDED: ClassVar[Mapping[str, str]] = {
        "name": "the agent's name",
        "source": "the zip or tar",
    }
    name: Text
    source: Source


class Clone(Repository, Wishes):
    """A repository, and the agent that it becomes."""

    ALSO: ClassVar[Mapping[str, str]] = GIT_ALSO | {
        "agent_name": "name",
        "version_tag": "version",
    }
    name: Text
    url: Given


class GithubClone(Body):
    """A repository at GitHub by its short name."""

    ALSO: ClassVar[Mapping[str, str]] = {"ref": "branch", "name": "agent_name"}
    repository_full_name: Given
    branch: Given | None = None
    agent_name: Text | None = None
    version: Text | None = None
    token: Text | None = Field(default=None, repr=False)
    secret: Given | None = None

    @model_validator(mode="after")
    def _named(self) -> GithubClone:
        if not _SHORT_NAME.fullmatch(self.repository_full_name):
            why = "owner and name with a slash between, such as anna/greeter"
            raise refused(
                "invalid_field",
                f"repository_full_name: {why}",
                {"repository_full_name": why},
            )
        return self

    @property
    def name(self) -> str:
        """Return the name of the agent: the repository's own, unless one is given."""
        repository = self.repository_full_name.rpartition("/")[2]
        return self.agent_name or repository.lower()

    @property
    def git(self) -> GitRequest:
        """Return the repository."""
        return GitRequest(
            url=f"{GITHUB}/{self.repository_full_name}.git",
            ref=self.branch,
            token=self.token,
            secret=self.secret,
        )


class Update(Archive, Repository, Wishes):
    """A new version: of an archive, a repository, or of where the agent came from."""

    ALSO: ClassVar[Mapping[str, str]] = GIT_ALSO | UPLOAD_ALSO


class Rollback(Body):
    """The version to go back to; none: the newest that was active before."""

    ALSO: ClassVar[Mapping[str, str]] = {"target_version": "version"}
    version: Text | None = None
    reason: Reason = ""


class Deploy(Body):
    """The version to deploy: one that was built, or was active before."""

    ALSO: ClassVar[Mapping[str, str]] = {"target_version": "version"}
    version: Text
    reason: Reason = ""


class Build(Archive, Repository, Versioned):
    """A build without a deployment: of an agent, or of a name that becomes one."""

    ALSO: ClassVar[Mapping[str, str]] = GIT_ALSO | UPLOAD_ALSO | {"agent_name": "name"}
    agent_id: Id | None = None
    name: Text | None = None

    @model_validator(mode="after")
    def _of_one(self) -> Build:
        if (self.agent_id is None) == (self.name is None):
            why = "one of 'agent_id' and 'name'"
            raise refused("missing_field", f"add {why}", {"agent_id": why, "name": why})
        return self
