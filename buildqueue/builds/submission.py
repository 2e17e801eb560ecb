"""What happens when an owner uploads a zip? It is checked, stored, and a job is queued.

Checked first, so that a source which cannot be built is refused at once. Then one
transaction makes or locks the agent, reserves the version, and inserts build and job:
after a refusal or a rollback nothing is left. If the process dies between storing and
commit, the stored source is an orphan that a duty removes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from ..backends.archives import extract_zip
from ..backends.localplan import plan_source
from ..exceptions import Refused, Rejected, Unavailable
from ..models import Agent, AgentBuild, BuildJob
from ..queue import database
from ..queue.enqueueing import enqueue
from ..queue.outcomes import Actor
from . import hosts, payloads, removal, sources, versions
from .lifecycle import opening
from .payloads import StoredSource

MAX_PORTS = 16
MAX_CHANGELOG = 10_000

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What was queued."""

    job: BuildJob
    build: AgentBuild
    agent: Agent
    version: str
    previous_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    owner_id: str
    caller: Actor
    name: str
    version: str | None
    stated: str | None
    ports: tuple[int, ...]
    changelog: str | None
    writable: bool | None


def submit_upload(
    *,
    owner_id: str,
    caller: Actor,
    name: str,
    source: BinaryIO,
    version: str | None = None,
    ports: Sequence[int] = (),
    changelog: str | None = None,
    writable: bool | None = None,
) -> Submission:
    """Queue the build and deployment of a zip; Refused tells what is wrong with it.

    `owner_id` owns the agent, `caller` asks and is recorded. The agent is the owner's
    live one of that name, or a new one; `writable` None keeps what it was. Joins the
    caller's transaction.
    """
    _check_name(name)
    _check_ports(ports)
    if version is not None:
        versions.check(version)
    with _checked(source) as (spooled, stated):
        kept = sources.keep(spooled)
    request = _Request(
        owner_id=owner_id,
        caller=caller,
        name=name,
        version=version,
        stated=stated,
        ports=tuple(ports),
        changelog=changelog[:MAX_CHANGELOG] if changelog else None,
        writable=writable,
    )
    try:
        with database.atomic():
            return _queue(request, kept)
    except BaseException:
        with suppress(OSError):  # then it is an orphan, and the duty's
            sources.delete(kept.key)
        raise


def _queue(request: _Request, source: StoredSource) -> Submission:
    agent = opening.open_agent(
        request.owner_id, request.name, writable=request.writable
    )
    asked = opening.NewBuild(
        id=uuid4(),
        version=versions.choose(agent, wanted=request.version, stated=request.stated),
        source=source,
        triggered_by=request.caller.id or request.owner_id,
        changelog=request.changelog,
    )
    home = hosts.home(agent)
    job = enqueue(
        _payload(request, agent, asked),
        owner_id=asked.triggered_by,
        agent_id=agent.pk,
        serial_key=removal.serial_key(agent),
        requires=hosts.capability(home) if home else None,
        actor=request.caller,
    )
    build = opening.open_build(agent, asked, job)
    agent.refresh_from_db(using=database.alias())
    return Submission(
        job=job,
        build=build,
        agent=agent,
        version=asked.version,
        previous_version=opening.active_version(agent),
    )


def _payload(
    request: _Request, agent: Agent, asked: opening.NewBuild
) -> dict[str, object]:
    """Return the payload in our form: what only nasiko's rows carry stays out of it."""
    made = payloads.Upload(
        build_id=asked.id,
        agent_id=agent.pk,
        owner_id=asked.triggered_by,
        agent_owner_id=request.owner_id,
        name=request.name,
        agent_version=asked.version,
        source=asked.source,
        ports=request.ports,
        writable=agent.writable,
    )
    return made.model_dump(mode="json", exclude={"env", "writable_path"})


@contextmanager
def _checked(source: BinaryIO) -> Iterator[tuple[sources.Spooled, str | None]]:
    """Yield the source in a local file and the version it states; refuse a bad one."""
    with tempfile.TemporaryDirectory(prefix="buildqueue-upload-") as folder:
        spooled = sources.spool(source, Path(folder) / "source.zip")
        tree = Path(folder) / "tree"
        try:
            stated = _check_source(spooled.path, tree)
        except Rejected as error:
            raise Refused(
                error.code, str(error), fields={"source": str(error)}
            ) from error
        except Unavailable as error:
            raise Refused(error.code, str(error), status=503) from error
        yield spooled, stated


def _check_source(archive: Path, tree: Path) -> str | None:
    extract_zip(archive, tree, sources.zip_limits())
    plan_source(tree)
    return versions.read_version(tree)


def _check_name(name: str) -> None:
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


def _check_ports(ports: Sequence[int]) -> None:
    if len(ports) > MAX_PORTS or not all(0 < port < 65536 for port in ports):
        rule = f"at most {MAX_PORTS} ports from 1 to 65535"
        raise Refused("invalid_ports", f"ports: {rule}", fields={"ports": rule})
