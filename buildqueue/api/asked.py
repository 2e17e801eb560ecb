"""What may each request bring? The fields of every body, and what the schema tells.

Only their types are checked here; whether a wish can be fulfilled, the domain says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, BinaryIO, ClassVar, Final, cast
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile as AnyUploadedFile
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from .. import conf
from ..builds.payloads import Spec
from ..builds.submission import GitRequest
from ..builds.submission.wishes import check_ports, spec_of
from .problems import refused
from .reading import JSON, Body
from .receiving import MULTIPART, too_large

MAX_REASON: Final = 1000
GITHUB: Final = "https://github.com"
SPEC: Final = tuple(Spec.model_fields)

_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


def _plain(text: str) -> str:
    """Return a text that can be stored."""
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("must be a text that UTF-8 can hold") from None
    return text


def _file(value: object) -> object:
    if not isinstance(value, AnyUploadedFile):
        raise ValueError("must be a file, with a file name")
    return value


def _id(value: object) -> object:
    try:
        return UUID(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("must be a UUID; take it from a link or a list") from None


def _ports(value: object) -> object:
    """Turn what a form holds, numbers with commas between, into a list."""
    if not isinstance(value, str):
        return value
    try:
        return [int(port) for port in value.split(",") if port.strip()]
    except ValueError:
        raise ValueError("numbers with commas between, such as 8000,9000") from None


def _environment(value: object) -> object:
    """Turn what a form holds, a JSON object, into names and values."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError('a JSON object of texts, such as {"NAME": "value"}') from None


Text = Annotated[str, AfterValidator(_plain)]
Given = Annotated[str, AfterValidator(_plain), Field(min_length=1)]
Reason = Annotated[str, AfterValidator(_plain), Field(max_length=MAX_REASON)]
Source = Annotated[
    Any,
    BeforeValidator(_file),
    WithJsonSchema({"type": "string", "format": "binary"}),
]
Id = Annotated[UUID, BeforeValidator(_id)]
Ports = Annotated[list[int], BeforeValidator(_ports)]
Environment = Annotated[
    dict[str, Any],
    BeforeValidator(_environment),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]


class Nothing(Body):
    """A verb that needs no more than its address."""


class _Version(Body):
    version: Text | None = None
    changelog: Text | None = None


class _Wishes(_Version):
    """How an agent's instances should be."""

    env: Environment | None = Field(default=None, repr=False)
    ports: Ports | None = None
    replicas: int | None = None
    memory_mb: int | None = None
    cpus: Annotated[float, Field(allow_inf_nan=False)] | None = None
    processes: int | None = None
    writable: bool | None = None
    writable_path: Text | None = None

    @property
    def spec(self) -> Spec:
        """Return what is asked for; Refused when no instance could be like that."""
        check_ports(self.ports or ())
        asked = {name: getattr(self, name) for name in SPEC}
        return spec_of({k: v for k, v in asked.items() if v is not None})


class _Repository(Body):
    """A repository, what of it, and what opens it."""

    url: Given | None = None
    ref: Given | None = None
    commit: Given | None = None
    token: Text | None = Field(default=None, repr=False)
    secret: Given | None = None

    @model_validator(mode="after")
    def _complete(self) -> _Repository:
        rest = (self.ref, self.commit, self.token, self.secret)
        if self.url is None and any(rest):
            raise refused(
                "missing_field",
                "add 'url', the repository that the branch, commit or token is for",
                {"url": "must be given"},
            )
        return self

    @property
    def git(self) -> GitRequest | None:
        """Return the repository, if one is named."""
        if self.url is None:
            return None
        return GitRequest(
            url=self.url,
            ref=self.ref,
            commit=self.commit,
            token=self.token,
            secret=self.secret,
        )


class _Archive(Body):
    source: Source | None = None

    @property
    def archive(self) -> BinaryIO | None:
        """Return the file that was sent along; Refused when it is too large."""
        # Where the host has read the form, another limit than ours was counted to.
        if self.source is not None and self.source.size > (
            limit := conf.get().upload_max_bytes
        ):
            raise too_large(limit)
        return cast("BinaryIO | None", self.source)


GIT_ALSO: Final = {"branch": "ref", "github_url": "url"}
UPLOAD_ALSO: Final = {"file": "source", "version_tag": "version"}


class Upload(_Archive, _Wishes):
    """A zip or tar, and the agent that it becomes."""

    ALSO: ClassVar[Mapping[str, str]] = UPLOAD_ALSO | {"agent_name": "name"}
    NEEDED: ClassVar[Mapping[str, str]] = {
        "name": "the agent's name",
        "source": "the zip or tar",
    }
    name: Text
    source: Source


class Clone(_Repository, _Wishes):
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
        if not _REPOSITORY.fullmatch(self.repository_full_name):
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


class Update(_Archive, _Repository, _Wishes):
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


class Build(_Archive, _Repository, _Version):
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


class ConnectorUpload(_Archive):
    """A zip or tar, and the connector that it becomes."""

    ALSO: ClassVar[Mapping[str, str]] = UPLOAD_ALSO
    NEEDED: ClassVar[Mapping[str, str]] = {
        "name": "the connector's name",
        "source": "the zip or tar",
    }
    name: Text
    source: Source
    version: Text = "1.0.0"
    env: Environment | None = Field(default=None, repr=False)
    display_name: Text | None = None


class ConnectorClone(_Repository):
    """A repository, and the connector that it becomes."""

    ALSO: ClassVar[Mapping[str, str]] = GIT_ALSO | {"version_tag": "version"}
    name: Text
    url: Given
    version: Text = "1.0.0"
    env: Environment | None = Field(default=None, repr=False)
    display_name: Text | None = None


class Watch(Body):
    """A branch or tag to follow."""

    ALSO: ClassVar[Mapping[str, str]] = GIT_ALSO
    url: Given
    ref: Given
    mode: Text = "propose"
    bump: Text = "patch"
    interval_minutes: int = 10
    secret: Given | None = None


def told(kind: type[Body], *media: str) -> dict[str, Any]:
    """Return how the schema tells a body: its fields, under each content type."""
    schema = kind.model_json_schema()
    plain = {k: v for k, v in schema["properties"].items() if k != "source"}
    content = {
        each: {
            "schema": schema if each == MULTIPART else schema | {"properties": plain}
        }
        for each in media or (JSON,)
    }
    needed = bool(schema.get("required"))
    return {"requestBody": {"required": needed, "content": content}}
