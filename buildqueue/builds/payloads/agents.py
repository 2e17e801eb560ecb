"""What do the jobs of agents carry? One model a kind.

nasiko's form of each is turned into ours: a file becomes a source, the tag of the image
a version, loose fields a `spec`. What only its rows hold, such as an environment in
clear, has a field of its own that ours leave empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from uuid import UUID

from pydantic import model_validator

from .parts import (
    Environment,
    GitSource,
    Model,
    OwnerId,
    Source,
    Spec,
    WritablePath,
)

GITHUB = "https://github.com"
_SPEC = ("ports", "writable", "writable_path")


class Payload(Model):
    """What all of them have."""

    version: Literal[1] = 1


class _OfAgent(Payload):
    """About one build of one agent, asked for by `owner_id` for its true owner."""

    build_id: UUID
    agent_id: UUID
    owner_id: OwnerId  # the caller
    agent_owner_id: OwnerId
    name: str
    spec: Spec = Spec()
    env: Environment = {}  # of nasiko's rows alone

    # Fields of nasiko's that say nothing ours do not say.
    DROPPED: ClassVar[tuple[str, ...]] = ("upload_id",)

    @property
    def label(self) -> str:
        """Return the name that people know it by."""
        return self.name

    @model_validator(mode="before")
    @classmethod
    def _from_nasiko(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        fields = {**given}
        for name in cls.DROPPED:
            fields.pop(name, None)
        fields.setdefault("agent_owner_id", fields.get("owner_id"))
        if "spec" not in fields:
            loose = {name: fields.pop(name) for name in _SPEC if name in fields}
            told = {
                name: each for name, each in loose.items() if each not in (None, [])
            }
            fields["spec"] = told
        return cls._turned(fields)

    @classmethod
    def _turned(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return fields


class Upload(_OfAgent):
    """Build a source, deploy it, and make it the agent's version."""

    kind: Literal["upload", "Upload"] = "upload"
    agent_version: str | None  # None: nobody reserved one, the source decides
    source: Source

    @classmethod
    def _turned(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if "zip_path" in fields:
            fields["source"] = {"zip_path": fields.pop("zip_path")}
            fields.setdefault("agent_version", _tag(fields.pop("image_tag", "")))
        return fields


class Update(_OfAgent):
    """Give an agent a new version from a source, or from where it came before."""

    kind: Literal["update", "Update"] = "update"
    new_version: str
    prev_version: str | None = None
    prev_image: str | None = None
    source: Source | None = (
        None  # None: the repository of the newest build that has one
    )
    changelog: str | None = None

    DROPPED: ClassVar[tuple[str, ...]] = ("upload_id", "image_tag")

    @classmethod
    def _turned(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if path := fields.pop("zip_path", None):
            fields["source"] = {"zip_path": path}
        return fields


class GithubClone(_OfAgent):
    """Fetch a repository, then build and deploy it.

    `prior_*` is what the agent was before another system marked it as deploying.
    """

    kind: Literal["github_clone", "GithubClone"] = "github_clone"
    agent_version: str | None = None  # reserved; the source's own is taken when free
    version_override: str | None = None  # asked for: never another
    source: GitSource
    prior_version: str | None = None
    prior_image: str | None = None
    prior_status: str | None = None

    DROPPED: ClassVar[tuple[str, ...]] = ("upload_id", "image_tag")

    @classmethod
    def _turned(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if "repo_full_name" in fields:
            url = f"{GITHUB}/{fields.pop('repo_full_name')}.git"
            fields["source"] = {"url": url, "ref": fields.pop("branch", None)}
        return fields


class Clone(_OfAgent):
    """Build and deploy an archive that another system has fetched; legacy rows only."""

    kind: Literal["clone", "Clone"] = "clone"
    agent_version: str | None = None
    source: Source

    @classmethod
    def _turned(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if "tar_gz_path" in fields:
            fields["source"] = {"zip_path": fields.pop("tar_gz_path")}
            fields.setdefault("agent_version", _tag(fields.pop("image_tag", "")))
        return fields


class StandaloneBuild(Payload):
    """Build an image and deploy nothing."""

    kind: Literal["standalone_build", "StandaloneBuild"] = "standalone_build"
    build_id: UUID
    agent_id: UUID
    agent_name: str
    version_tag: str
    version_override: str | None = None  # asked for: never another
    source: Source

    @property
    def label(self) -> str:
        """Return the name that people know it by."""
        return self.agent_name

    @model_validator(mode="before")
    @classmethod
    def _from_nasiko(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "source" in given:
            return given
        fields = {**given}
        url, key = fields.pop("github_url", None), fields.pop("source_key", None)
        fields["source"] = {"url": url} if url else {"key": key}
        return fields


class Rollback(Payload):
    """Deploy a version again that was built before."""

    kind: Literal["rollback", "Rollback"] = "rollback"
    rollback_build_id: UUID
    agent_id: UUID
    caller_id: OwnerId
    agent_owner_id: OwnerId
    agent_name: str
    target_version: str
    target_image_tag: str
    reason: str | None = None
    writable: bool | None = None
    writable_path: WritablePath | None = None

    @property
    def build_id(self) -> UUID:
        """Return the id of the build row, under the name the others use."""
        return self.rollback_build_id

    @property
    def label(self) -> str:
        """Return the name that people know it by."""
        return self.agent_name


def _tag(image: object) -> str | None:
    """Return the tag of an image, where nasiko keeps the version."""
    return str(image).rpartition(":")[2] or None
