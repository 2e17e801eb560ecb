"""What may be asked for? Names, ports, limits, an environment, a repository; or Refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ...backends import gitaddress
from ...exceptions import Refused, Rejected
from ...queue.logs import storable
from .. import gitaccess, secrets
from ..payloads import NO_SPEC, GitSource, Spec

MAX_CHANGELOG = 10_000
MAX_PORTS = 16
MAX_PERSON = 100  # as the columns have it

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRequest:
    """A repository to build from; `token` is for it alone, `secret` names one of the
    owner's.
    """

    url: str
    ref: str | None = None  # a branch or a tag; None: the default branch
    commit: str | None = None
    token: str | None = field(default=None, repr=False)
    secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What goes with a build besides its source, checked and encrypted."""

    spec: Spec = NO_SPEC
    secrets_env: Mapping[str, str] = field(default_factory=dict)
    changelog: str | None = None


NO_WISHES = Wishes()


def wishes(
    owner_id: str,
    *,
    spec: Spec | None = None,
    ports: Sequence[int] | None = None,
    env: Mapping[str, str] | None = None,
    changelog: str | None = None,
) -> Wishes:
    """Return them checked; the environment as ciphertext of the owner's."""
    check_person("owner", owner_id)
    if ports:
        check_ports(ports)
        spec = (spec or NO_SPEC).model_copy(update={"ports": tuple(ports)})
    if env:
        secrets.check_env(env)
    return Wishes(
        spec=spec or NO_SPEC,
        secrets_env=secrets.encrypt_env(owner_id, env) if env else {},
        changelog=storable(changelog)[:MAX_CHANGELOG] if changelog else None,
    )


def spec_of(given: Mapping[str, Any]) -> Spec:
    """Return the spec of fields that were sent, or refuse them one by one."""
    try:
        return Spec.model_validate(dict(given))
    except ValidationError as error:
        faults = {
            ".".join(map(str, fault["loc"][:1])): fault["msg"].removeprefix(
                "Value error, "
            )
            for fault in error.errors(include_url=False, include_input=False)
        }
        listed = "; ".join(f"{name}: {why}" for name, why in faults.items())
        raise Refused("invalid_parameter", listed, fields=faults) from None


def check_person(role: str, person: str) -> None:
    """Refuse the id of an owner or a caller that no row could hold."""
    if len(person) > MAX_PERSON or storable(person) != person:
        rule = f"at most {MAX_PERSON} characters, none of them NUL"
        raise Refused("invalid_parameter", f"{role}: {rule}", fields={role: rule})


def check_name(name: str) -> None:
    """Refuse a name that could not be deployed."""
    if not _NAME.fullmatch(name):
        rule = (
            "1 to 63 lower-case letters, digits, '-', '.' and '_', "
            "with a letter or digit at both ends"
        )
        raise Refused(
            "invalid_name",
            f"{name[:80]!r} cannot be deployed under this name: take {rule}",
            fields={"name": rule},
        )


def check_ports(ports: Sequence[int]) -> None:
    """Refuse ports that no program could listen on, and too many of them."""
    if len(ports) > MAX_PORTS or not all(0 < port < 65536 for port in ports):
        rule = f"at most {MAX_PORTS} ports from 1 to 65535"
        raise Refused("invalid_ports", f"ports: {rule}", fields={"ports": rule})


def git_source(owner_id: str, asked: GitRequest) -> tuple[GitSource, str | None]:
    """Return the repository, checked, and its token as ciphertext of the owner's."""
    try:
        url = gitaddress.check_url(asked.url, gitaccess.access())
        if asked.ref is not None:
            gitaddress.check_ref(asked.ref)
        if asked.commit is not None:
            gitaddress.check_commit(asked.commit)
        if asked.token:
            gitaddress.check_token(asked.token)
    except Rejected as error:
        raise Refused(error.code, str(error), fields={"git": str(error)}) from None
    if asked.secret is not None:
        _check_secret(owner_id, asked.secret)
    source = GitSource(url=url, ref=asked.ref, commit=asked.commit, secret=asked.secret)
    return source, secrets.encrypt(owner_id, asked.token) if asked.token else None


def _check_secret(owner_id: str, name: str) -> None:
    if name not in {known.name for known in secrets.names(owner_id)}:
        raise Refused(
            "secret_missing",
            f"the agent's owner has no secret named {name[:128]!r}; set it first",
            fields={"secret": "not set"},
        )
