"""What do the bodies of builds share? A version, wishes, a repository, an archive."""

from __future__ import annotations

from typing import Annotated, BinaryIO, Final, cast

from pydantic import Field, model_validator

from ... import conf
from ...builds.payloads import Spec
from ...builds.submission import GitRequest
from ...builds.submission.wishes import check_ports, spec_of
from ..problems import refused
from ..reading import Body
from ..receiving import too_large
from .fields import Environment, Given, Ports, Source, Text

SPEC: Final = tuple(Spec.model_fields)


class Versioned(Body):
    """The version that a build gets, and what is new in it."""

    version: Text | None = None
    changelog: Text | None = None


class Wishes(Versioned):
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


class Repository(Body):
    """A repository, what of it, and what opens it."""

    url: Given | None = None
    ref: Given | None = None
    commit: Given | None = None
    token: Text | None = Field(default=None, repr=False)
    secret: Given | None = None

    @model_validator(mode="after")
    def _complete(self) -> Repository:
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


class Archive(Body):
    """A file that is sent along."""

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
