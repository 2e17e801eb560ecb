"""Which environment does an instance get? Later wins: the host, the target, this build.

What the host's providers add is asked for at each start and stored nowhere. Secrets are
read with the key of the target's owner, whoever asked. Nothing is left out: an
environment that cannot be had whole is refused.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils.module_loading import import_string

from .. import conf
from ..exceptions import Unavailable
from ..models import Agent, AgentBuild, McpConnector, McpConnectorBuild
from ..queue import database
from . import versions
from .secrets import decrypt_env


def environment_of(
    target: Agent | McpConnector, secrets_env: Mapping[str, str]
) -> dict[str, str]:
    """Return name to value for an instance; `secrets_env` are the build's ciphertexts.

    Unavailable when a provider has none now, Rejected when a secret cannot be read.
    """
    owner_id = target.owner_id or ""
    found: dict[str, str] = {}
    for path in conf.get().env_providers:
        found |= _provided(path, target)
    found |= decrypt_env(owner_id, stored_env(target))
    return found | decrypt_env(owner_id, secrets_env)


def stored_env(target: Agent | McpConnector) -> dict[str, str]:
    """Return the ciphertexts of the target's own environment."""
    if isinstance(target, Agent):
        return dict(target.secrets_env)
    return dict(target.build_secrets_env)


def env_to_come(target: Agent | McpConnector) -> dict[str, str]:
    """Return the ciphertexts that open builds will add to the target's environment.

    The target must be locked, so that nobody adds to it between the look and a write.
    """
    alias = database.alias()
    if isinstance(target, Agent):
        mine = AgentBuild.objects.using(alias).filter(agent=target)
        brought = _brought(mine.filter(status__in=versions.OPEN_BUILDS))
    else:
        builds = McpConnectorBuild.objects.using(alias).filter(connector=target)
        brought = _brought(builds.filter(completed_at__isnull=True))
    return dict(ChainMap(*reversed(brought)))


def _brought(builds: QuerySet[Any]) -> list[dict[str, str]]:
    return list(builds.order_by("created_at").values_list("secrets_env", flat=True))


def _provided(path: str, target: Agent | McpConnector) -> dict[str, str]:
    try:
        given = import_string(path)(target)
    except Exception as error:
        # The host's own code fails as it likes, and its words may hold a secret.
        raise _unavailable(path, f"raised {type(error).__name__}") from None
    if not isinstance(given, Mapping) or not all(map(_is_variable, given.items())):
        raise _unavailable(path, "gave something that is no environment")
    return dict(given)


def _is_variable(variable: tuple[Any, Any]) -> bool:
    name, value = variable
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    return bool(name) and "=" not in name and "\0" not in name + value


def _unavailable(path: str, why: str) -> Unavailable:
    return Unavailable(
        "environment_unavailable",
        f"the host's environment cannot be had now: {path} {why}",
    )
