"""What are the payloads made of? Sources, what an instance should be like, and names.

Everything is frozen and refuses what it does not know.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Port = Annotated[int, Field(ge=1, le=65535)]
OwnerId = Annotated[str, Field(max_length=100)]
Environment: TypeAlias = dict[str, str]

MOST_PORTS = 16
MOST_REPLICAS = 16


def _absolute(path: str) -> str:
    sound = path.startswith("/") and path != "/" and ".." not in path.split("/")
    if not sound or ":" in path or not path.isprintable():
        raise ValueError("must be an absolute path, not /, without '..' and ':'")
    return path


WritablePath = Annotated[str, Field(max_length=255), AfterValidator(_absolute)]


class Model(BaseModel):
    """Nothing unknown, nothing changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StoredSource(Model):
    """A source in the source storage, named by its checksum."""

    key: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class SourceKey(Model):
    """A source that another system stored without telling its checksum."""

    key: str


class SourceFile(Model):
    """A source that another system left as a file on the host of its API."""

    zip_path: str


class GitSource(Model):
    """A branch, a tag or a commit of a repository.

    A token stands encrypted on the build's row, or is the owner's secret of that name.
    """

    url: Annotated[str, Field(max_length=2000)]
    ref: Annotated[str, Field(max_length=255)] | None = None  # None: the default branch
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")] | None = (
        None
    )
    secret: Annotated[str, Field(max_length=128)] | None = None


Source: TypeAlias = StoredSource | GitSource | SourceKey | SourceFile


class Spec(Model):
    """How an agent's instances should be; None: as the agent has it."""

    ports: Annotated[tuple[Port, ...], Field(max_length=MOST_PORTS)] | None = None
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] | None = None
    memory_mb: Annotated[int, Field(ge=16, le=1024 * 1024)] | None = None
    cpus: Annotated[float, Field(ge=0.01, le=1024)] | None = None
    processes: Annotated[int, Field(ge=1, le=100_000)] | None = None
    writable: bool | None = None
    writable_path: WritablePath | None = None


NO_SPEC = Spec()
