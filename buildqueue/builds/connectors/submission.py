"""What happens when an owner sends the source of a connector? It is checked, stored, and
a job is queued.

One transaction makes or locks the connector of that name and inserts build and job:
after a refusal or a rollback nothing is left. The same name again is the next build of
the same connector; what runs answers until that one is ready.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO
from uuid import uuid4

from ...exceptions import Refused
from ...models import BuildJob, McpConnector, McpConnectorBuild
from ...queue import database
from ...queue.enqueueing import enqueue
from ...queue.logs import storable
from ...queue.outcomes import Actor
from .. import environment, hosts, payloads, secrets
from ..lifecycle import connectoropening
from ..lifecycle.connectoropening import TOKEN, NewConnectorBuild
from ..payloads import GitSource, McpServerUpload, StoredSource
from ..submission import GitRequest, taking
from ..submission.wishes import check_name, check_person, git_source, wishes
from . import removal

MAX_DISPLAY_NAME = 200

_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSubmission:
    """What was queued."""

    job: BuildJob
    build: McpConnectorBuild
    connector: McpConnector


def submit_connector(
    *,
    owner_id: str,
    caller: Actor,
    name: str,
    source: BinaryIO | None = None,
    git: GitRequest | None = None,
    version: str = "1.0.0",
    env: Mapping[str, str] | None = None,
    display_name: str | None = None,
) -> ConnectorSubmission:
    """Queue the build of a zip, a tar or a repository as the owner's connector.

    `owner_id` owns the connector, `caller` asks and is recorded. Joins the caller's
    transaction. Refused tells what is wrong; `connector_exists` when the name is that of
    a connector that is run elsewhere.
    """
    check_name(name)
    check_person("caller", caller.id)
    _check_version(version)
    if env and TOKEN in env:
        raise Refused(
            "invalid_environment",
            f"{TOKEN} is made for each connector and cannot be set",
            fields={TOKEN: "cannot be set"},
        )
    wanted = wishes(owner_id, env=env)
    taken, token = _source(owner_id, source, git)
    asked = NewConnectorBuild(
        id=uuid4(),
        version=version,
        source=taken,
        triggered_by=caller.id or owner_id,
        secrets_env=wanted.secrets_env,
        source_token=token,
    )
    shown = storable(display_name)[:MAX_DISPLAY_NAME] if display_name else None
    with database.atomic():
        return _queue(owner_id, name, caller, asked, shown)


def _queue(
    owner_id: str,
    name: str,
    caller: Actor,
    asked: NewConnectorBuild,
    display_name: str | None,
) -> ConnectorSubmission:
    connector = connectoropening.open_connector(
        owner_id, name, display_name=display_name
    )
    to_come = {**connector.build_secrets_env, **environment.env_to_come(connector)}
    secrets.check_stored({**to_come, **asked.secrets_env})
    payload = McpServerUpload(
        build_id=asked.id,
        connector_id=connector.pk,
        owner_id=asked.triggered_by,
        name=name,
        version_tag=asked.version,
        source=asked.source,
    )
    home = connector.host
    is_bound = home is not None and not hosts.is_gone(home)
    job = enqueue(
        payloads.dump(payload),
        owner_id=asked.triggered_by,
        connector_id=connector.pk,
        serial_key=removal.serial_key(connector),
        requires=hosts.capability(home) if home and is_bound else None,
        actor=caller,
    )
    build = connectoropening.open_build(connector, asked, job)
    return ConnectorSubmission(job=job, build=build, connector=connector)


def _source(
    owner_id: str, source: BinaryIO | None, git: GitRequest | None
) -> tuple[StoredSource | GitSource, str | None]:
    if (source is None) == (git is None):
        raise Refused(
            "source_required",
            "send either an archive or a repository",
            fields={"source": "an archive or a repository, not both"},
        )
    if git is not None:
        return git_source(owner_id, git)
    assert source is not None
    return taking.take(source).source, None


def _check_version(version: str) -> None:
    if not _VERSION.fullmatch(version):
        rule = (
            "1 to 64 letters, digits, '_', '.' and '-', not beginning with '.' or '-'"
        )
        raise Refused(
            "invalid_version",
            f"{version[:80]!r} cannot be a connector's version: take {rule}",
            fields={"version": rule},
        )
