"""What does a worker start as a service of its host? A command, maybe with an environment.

A kind of job, or the setting HOST_SERVICES, names functions that return one, or None
while the service runs. What stands in `env` is seen by the service alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCommand:
    """A command whose environment holds more than every service's: secrets, say."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


Service: TypeAlias = Callable[[], "list[str] | ServiceCommand | None"]
