"""What may a request of a connector's build bring?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from .fields import Environment, Given, Source, Text
from .parts import GIT_ALSO, UPLOAD_ALSO, Archive, Repository


class ConnectorUpload(Archive):
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


class ConnectorClone(Repository):
    """A repository, and the connector that it becomes."""

    ALSO: ClassVar[Mapping[str, str]] = GIT_ALSO | {"version_tag": "version"}
    name: Text
    url: Given
    version: Text = "1.0.0"
    env: Environment | None = Field(default=None, repr=False)
    display_name: Text | None = None
