"""What does a build job carry? One frozen model a kind, told apart by `kind`.

Both spellings of a kind are taken, ours and nasiko's, with nasiko's fields; a field
that came later has a default, so old rows parse. Ours hold ids, references and choices
only: no secret and no environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

Port = Annotated[int, Field(ge=1, le=65535)]
OwnerId = Annotated[str, Field(max_length=100)]
Environment: TypeAlias = dict[str, str]


class _Model(BaseModel):
    """Nothing unknown, nothing changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Payload(_Model):
    """What all of them have."""

    version: Literal[1] = 1


class _Named(_Payload):
    """Known to people by `name`."""

    name: str

    @property
    def label(self) -> str:
        """Return the name that people know it by."""
        return self.name


class _AgentNamed(_Payload):
    """Known to people by `agent_name`."""

    agent_name: str

    @property
    def label(self) -> str:
        """Return the name that people know it by."""
        return self.agent_name


class StoredSource(_Model):
    """A source in the source storage."""

    key: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class SourceFile(_Model):
    """A source that another system left as a file on the host of its API."""

    zip_path: str


class Upload(_Named):
    """Build a zip, deploy it, and make it the agent's version.

    nasiko's form is turned into ours: `zip_path` becomes the source, the tag of the
    image the version.
    """

    kind: Literal["upload", "Upload"] = "upload"
    build_id: UUID
    agent_id: UUID
    owner_id: OwnerId  # the caller
    agent_owner_id: OwnerId
    agent_version: str | None  # None: nobody reserved one, the source decides
    source: StoredSource | SourceFile
    ports: tuple[Port, ...] = ()
    writable: bool = False
    writable_path: str | None = None
    env: Environment = {}  # of nasiko's rows alone

    @model_validator(mode="before")
    @classmethod
    def _from_nasiko(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "zip_path" not in given:
            return given
        fields = {**given}
        fields["source"] = {"zip_path": fields.pop("zip_path")}
        fields.setdefault("agent_owner_id", fields.get("owner_id"))
        tag = str(fields.pop("image_tag", "")).rpartition(":")[2]
        fields.setdefault("agent_version", tag or None)
        fields.pop("upload_id", None)  # always the build's id
        return fields


class Update(_Named):
    """Give an agent a new version from a zip or from where it came before."""

    kind: Literal["update", "Update"] = "update"
    build_id: UUID
    agent_id: UUID
    owner_id: OwnerId
    agent_owner_id: OwnerId
    zip_path: str | None = None
    image_tag: str
    new_version: str
    prev_version: str
    prev_image: str | None = None
    changelog: str | None = None
    writable: bool = False
    writable_path: str | None = None


class Rollback(_AgentNamed):
    """Deploy an earlier version again."""

    kind: Literal["rollback", "Rollback"] = "rollback"
    rollback_build_id: UUID
    agent_id: UUID
    caller_id: OwnerId
    agent_owner_id: OwnerId
    target_version: str
    target_image_tag: str
    reason: str | None = None
    writable: bool = False
    writable_path: str | None = None

    @property
    def build_id(self) -> UUID:
        """Return the id of the build row, under the name the others use."""
        return self.rollback_build_id


class Clone(_Named):
    """Build and deploy a tar.gz that was fetched before."""

    kind: Literal["clone", "Clone"] = "clone"
    build_id: UUID
    agent_id: UUID
    owner_id: OwnerId
    upload_id: str
    tar_gz_path: str
    image_tag: str
    ports: tuple[Port, ...] = ()
    env: Environment = {}


class GithubClone(_Named):
    """Fetch a branch of a repository, then build and deploy it."""

    kind: Literal["github_clone", "GithubClone"] = "github_clone"
    build_id: UUID
    agent_id: UUID
    owner_id: OwnerId
    upload_id: str
    repo_full_name: str
    branch: str
    image_tag: str
    ports: tuple[Port, ...] = ()
    env: Environment = {}
    version_override: str | None = None
    prior_version: str | None = None
    prior_image: str | None = None
    prior_status: str | None = None


class StandaloneBuild(_AgentNamed):
    """Build an image and deploy nothing."""

    kind: Literal["standalone_build", "StandaloneBuild"] = "standalone_build"
    build_id: UUID
    agent_id: UUID
    github_url: str | None = None
    source_key: str | None = None
    version_tag: str


class ZipSource(_Model):
    """`{"Zip": {"zip_path": ...}}`"""

    zip: SourceFile = Field(alias="Zip")


class GithubAddress(_Model):
    """The address of a repository."""

    url: str


class GithubSource(_Model):
    """`{"Github": {"url": ...}}`"""

    github: GithubAddress = Field(alias="Github")


class McpServerUpload(_Named):
    """Build and run the server of an MCP connector."""

    kind: Literal["mcp_server_upload", "McpServerUpload"] = "mcp_server_upload"
    build_id: UUID
    connector_id: UUID
    owner_id: OwnerId
    source: ZipSource | GithubSource
    image_tag: str
    env: Environment = {}  # name to ciphertext


class AgentStop(_Payload):
    """End an agent's processes; its address stays."""

    kind: Literal["agent_stop"] = "agent_stop"
    agent_id: UUID


class AgentDelete(_Payload):
    """End an agent's processes for ever, and remove what was built for it."""

    kind: Literal["agent_delete"] = "agent_delete"
    agent_id: UUID


class InstanceEnd(_Payload):
    """End one instance that was started and never promoted."""

    kind: Literal["instance_end"] = "instance_end"
    agent_id: UUID
    instance_id: UUID


BuildPayload: TypeAlias = (
    Upload | Update | Rollback | Clone | GithubClone | StandaloneBuild | McpServerUpload
)
_ADAPTER: TypeAdapter[BuildPayload] = TypeAdapter(
    Annotated[BuildPayload, Field(discriminator="kind")]
)


def parse(payload: object) -> BuildPayload:
    """Return the payload as its kind's model; pydantic's ValidationError tells faults."""
    return _ADAPTER.validate_python(payload)


def dump(payload: BuildPayload) -> dict[str, Any]:
    """Return the JSON that `parse` takes again."""
    return payload.model_dump(mode="json", by_alias=True)


def build_id_of(payload: object) -> UUID | None:
    """Return the build's id even of a payload that does not parse, if one is there."""
    if not isinstance(payload, Mapping):
        return None
    for name in ("build_id", "rollback_build_id"):
        try:
            return UUID(str(payload[name]))
        except (KeyError, ValueError):
            continue
    return None
