"""Which names have an agent's environment and its owner's secrets? Never the values."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds import secrets, settings_of
from ..queue.logs import storable
from . import access, answers, asked, reading, schemas
from .auth import caller_of
from .problems import refused
from .reading import JSON

router = Router(tags=["secrets"])
VALUES = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "additionalProperties": {"type": ["string", "null"]},
                }
            }
        },
    }
}


@router.get(
    "/agents/{agent_id}/env", response=schemas.Environment, url_name="agent_env"
)
def agent_env(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Return the names of the agent's own environment."""
    found = access.agent_to_change(caller_of(request), agent_id, "change_agent")
    return answers.send(request, schemas.Environment(env=sorted(found.secrets_env)))


@router.patch(
    "/agents/{agent_id}/env",
    response=schemas.Environment,
    url_name="agent_env",
    openapi_extra=VALUES,
)
def agent_env_change(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Set variables, remove those that are null; its next start has them."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "change_agent")
    given = reading.read_pairs(request)
    names = settings_of.set_env(found, given, actor=caller.actor)
    return answers.send(request, schemas.Environment(env=names))


@router.get("/secrets", response=schemas.Secrets, url_name="secrets")
def secrets_list(request: HttpRequest) -> HttpResponse:
    """Return the names of the caller's secrets."""
    found = secrets.names(caller_of(request).key)
    return answers.send(
        request, schemas.Secrets(secrets=[_shown(each) for each in found])
    )


@router.put(
    "/secrets/{name}",
    response=schemas.Secret,
    url_name="secret",
    openapi_extra=asked.told(asked.Secret),
)
def secret_set(request: HttpRequest, name: str) -> HttpResponse:
    """Keep a secret of the caller's under a name, in place of the one it had."""
    owner = caller_of(request).key
    body = reading.read(request, asked.Secret)
    secrets.set_secret(owner, storable(name), body.value)
    [kept] = [each for each in secrets.names(owner) if each.name == name]
    return answers.send(request, _shown(kept))


@router.delete("/secrets/{name}", response={204: None}, url_name="secret")
def secret_remove(request: HttpRequest, name: str) -> HttpResponse:
    """Forget a secret of the caller's."""
    if not secrets.remove_secret(caller_of(request).key, storable(name)):
        raise refused("secret_not_found", "you have no secret of this name")
    return answers.send_nothing()


def _shown(secret: secrets.SecretName) -> schemas.Secret:
    return schemas.Secret(
        name=secret.name, created_at=secret.created_at, updated_at=secret.updated_at
    )
