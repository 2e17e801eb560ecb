"""What must an executor leave behind so that its build counts as a success?

It stands in the job's result, written with the job's end in one transaction; a result
that does not parse is as good as none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..exceptions import ResultMissing
from ..models import BuildJob
from .payloads import Spec

# What is kept of an agent card, and how much of it: a result is small.
CARD_FIELDS = (
    "name",
    "description",
    "version",
    "capabilities",
    "skills",
    "provider",
    "documentationUrl",
    "iconUrl",
    "protocolVersion",
    "preferredTransport",
    "defaultInputModes",
    "defaultOutputModes",
)
MAX_CARD_BYTES = 64 * 1024
MAX_CARD_DEPTH = 32

Result = TypeVar("Result", bound=BaseModel)


class Deployed(BaseModel):
    """An artifact that was built, and the instance that answers with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    build_id: UUID
    version: str
    image_reference: Annotated[str, Field(min_length=1)]
    digest: str
    ports: tuple[int, ...] = ()
    deployment_id: UUID
    service_url: Annotated[str, Field(min_length=1)]
    runtime: str
    host: str | None = None
    card: dict[str, Any] = {}
    asked: Spec = Spec()  # what its owner wanted other than it was
    built: bool = True  # False: a version that was built before runs again


class Built(BaseModel):
    """An artifact that was built, and is not deployed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    build_id: UUID
    version: str
    image_reference: Annotated[str, Field(min_length=1)]
    digest: str
    host: str | None = None


class ConnectorTool(BaseModel):
    """A tool, as the connector's server describes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=255)]
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] = {}


class ConnectorTools(BaseModel):
    """What a connector's server offers now."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: tuple[ConnectorTool, ...]


class ConnectorDeployed(BaseModel):
    """A connector's artifact, the address of its server, and what it offers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    build_id: UUID
    image_reference: Annotated[str, Field(min_length=1)]
    service_url: Annotated[str, Field(min_length=1)]
    instance_id: UUID | None = None
    runtime: str | None = None
    host: str | None = None
    tools: tuple[ConnectorTool, ...] = ()


def deployed(job: BuildJob) -> Deployed:
    """Return what an agent's job left, or raise ResultMissing."""
    return _parsed(job, Deployed)


def built(job: BuildJob) -> Built:
    """Return what a job left that deploys nothing, or raise ResultMissing."""
    return _parsed(job, Built)


def connector_deployed(job: BuildJob) -> ConnectorDeployed:
    """Return what a connector's job left, or raise ResultMissing."""
    return _parsed(job, ConnectorDeployed)


def connector_tools(job: BuildJob) -> ConnectorTools:
    """Return what a refreshing job has found, or raise ResultMissing."""
    return _parsed(job, ConnectorTools)


def card_of(found: Mapping[str, object] | None) -> dict[str, Any]:
    """Return what is kept of an agent card: nothing of one too large or too deep."""
    kept = {name: found[name] for name in CARD_FIELDS if name in found} if found else {}
    # Depth first: what nests without end can be neither measured nor stored.
    if not _is_within(kept, MAX_CARD_DEPTH) or len(json.dumps(kept)) > MAX_CARD_BYTES:
        return {}
    return kept


def _is_within(value: object, depth: int) -> bool:
    """Tell whether a JSON value nests at most so deep."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_within(each, depth - 1) for each in inner)


def _parsed(job: BuildJob, model: type[Result]) -> Result:
    try:
        return model.model_validate(job.result)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "result"
        raise ResultMissing(
            f"the job said done, but its result names no built artifact: "
            f"{where}: {fault['msg']}"
        ) from None
