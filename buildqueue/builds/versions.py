"""Which version does a build get? Plain x.y.z, once per agent, reserved before it starts.

A reservation is a version row in status "building", made in the transaction that
enqueues the job and deleted when the build fails; the unique constraint is the last
word between two uploads that want the same.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, TypeAlias

from django.db import IntegrityError

from ..exceptions import Refused
from ..models import Agent, AgentBuild, AgentVersion
from ..queue import database
from ..states import BuildStatus, VersionStatus

STEPS = ("patch", "minor", "major")
OPEN_BUILDS = (BuildStatus.QUEUED, BuildStatus.BUILDING)

FIRST = "1.0.0"
MAX_LENGTH = 50
MAX_GIVEN = 40  # shorter, since the patches after it may be longer
CARD_FILES = (
    "AgentCard.json",
    "agent-card.json",
    ".well-known/agent-card.json",
    ".well-known/agent.json",
)
MAX_FILE_BYTES = 1024 * 1024
MAX_TOML = 256 * 1024  # characters
MOST_DOTS = 100  # of a line

Numbers: TypeAlias = tuple[int, int, int]

_PLAIN = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


def numbers(version: str) -> Numbers | None:
    """Return the version's three numbers, or None when it is not plain x.y.z."""
    match = _PLAIN.fullmatch(version) if len(version) <= MAX_LENGTH else None
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def check(version: str) -> str:
    """Return the version, or refuse one that is not plain x.y.z."""
    if not _may_be_given(version):
        shown = version[:MAX_LENGTH]
        raise Refused(
            "invalid_version",
            f"{shown!r} is no version: write three numbers, such as 1.4.0",
            fields={"version": "must be x.y.z, three numbers without leading zeros"},
        )
    return version


def read_version(tree: Path) -> str | None:
    """Return the version that the source itself states, if it is plain x.y.z."""
    sources = (_from_cards, _from_pyproject, _from_cargo, _from_package)
    for stated in (each for read in sources for each in read(tree)):
        if _may_be_given(stated):
            return stated
    return None


def _may_be_given(version: str) -> bool:
    return len(version) <= MAX_GIVEN and numbers(version) is not None


def taken(agent: Agent) -> list[str]:
    """Return the agent's versions, reserved ones too."""
    rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    return list(rows.values_list("version", flat=True))


def next_free(agent: Agent) -> str:
    """Return the patch after the newest version; 1.0.0 when there is none."""
    known = [found for each in taken(agent) if (found := numbers(each))]
    if not known:
        return FIRST
    major, minor, patch = max(known)
    return f"{major}.{minor}.{patch + 1}"


def choose(agent: Agent, *, wanted: str | None, stated: str | None) -> str:
    """Return the version for a new build: the wanted, the source's, or the next.

    Only the caller's own wish can be refused; what the source states is a proposal.
    """
    used = set(taken(agent))
    if wanted is not None:
        if wanted in used:
            raise _taken(agent, wanted)
        return wanted
    return stated if stated and stated not in used else next_free(agent)


def reserve(agent: Agent, build: AgentBuild, *, changelog: str | None = None) -> None:
    """Reserve the build's version for it; refused when another has it.

    Expects the caller's transaction, which stays usable after a refusal.
    """
    made = AgentVersion(
        agent=agent,
        build=build,
        version=build.version_tag,
        status=VersionStatus.BUILDING,
        changelog=changelog,
    )
    try:
        with database.atomic():
            made.save(using=database.alias(), force_insert=True)
    except IntegrityError as error:
        if "agent_versions_uniq" in str(error):
            raise _taken(agent, build.version_tag) from None
        raise


def release(build: AgentBuild) -> None:
    """Give the version of a failed build back; of no effect once it was built."""
    AgentVersion.objects.using(database.alias()).filter(
        agent_id=build.agent_id, build=build, status=VersionStatus.BUILDING
    ).delete()


def bumped(agent: Agent, current: str, step: str) -> str:
    """Return the next free version a patch, a minor or a major step after the current."""
    major, minor, patch = numbers(current) or (0, 0, 0)
    used = set(taken(agent))
    while True:
        match step:
            case "major":
                major, minor, patch = major + 1, 0, 0
            case "minor":
                minor, patch = minor + 1, 0
            case _:
                patch += 1
        if (found := f"{major}.{minor}.{patch}") not in used:
            return found


def suggested(agent: Agent) -> dict[str, str]:
    """Return what the next version would be, by the step that is asked for."""
    rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    active = rows.filter(is_active=True).values_list("version", flat=True).first()
    if active is None:
        return dict.fromkeys(STEPS, next_free(agent))
    return {step: bumped(agent, active, step) for step in STEPS}


def delete_version(agent: Agent, version: str) -> None:
    """Forget a version that neither runs nor is being built or deployed.

    Its number is free again; what was built for it is removed by the clean-up. The
    agent is locked, as by whoever asks for a deployment of one of its versions.
    """
    with database.atomic():
        agents = Agent.objects.using(database.alias()).filter(pk=agent.pk)
        agents.select_for_update(no_key=True).first()
        rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
        known = numbers(version) is not None
        found = rows.filter(version=version).first() if known else None
        if found is None:
            shown = version[:MAX_LENGTH]
            raise Refused(
                "version_not_found",
                f"{agent.name} has no version {shown!r}",
                status=404,
                fields={"version": "not found"},
            )
        if why := _needed(found):
            raise Refused(
                "version_in_use", f"version {version} {why}, and stays", status=409
            )
        rows.filter(pk=found.pk).delete()


def _needed(version: AgentVersion) -> str | None:
    """Return why a version cannot go."""
    if version.is_active:
        return "is the active one"
    builds = AgentBuild.objects.using(database.alias())
    asked = builds.filter(agent_id=version.agent_id, version_tag=version.version)
    if version.status == VersionStatus.BUILDING:
        return "is being built"
    if asked.filter(status__in=OPEN_BUILDS).exists():
        return "is being deployed"
    return None


def check_newer(agent: Agent, version: str, current: str) -> str:
    """Return the version, or refuse one that is not above the current one."""
    wanted, now = numbers(check(version)), numbers(current)
    if now is not None and wanted is not None and wanted <= now:
        free = next_free(agent)
        raise Refused(
            "version_not_newer",
            f"version {version} is not above {current}; the next free one is {free}",
            status=409,
            fields={"version": f"must be above {current}; {free} is free"},
            extra={"next_version": free},
        )
    return version


def rename(build: AgentBuild, version: str) -> bool:
    """Give a build another version than it has reserved; false when that is taken."""
    rows = AgentVersion.objects.using(database.alias()).filter(
        agent_id=build.agent_id, build=build, status=VersionStatus.BUILDING
    )
    try:
        with database.atomic():
            renamed = bool(rows.update(version=version))
            if renamed:
                builds = AgentBuild.objects.using(database.alias())
                builds.filter(pk=build.pk).update(version_tag=version)
    except IntegrityError as error:
        if "agent_versions_uniq" in str(error):
            return False
        raise
    return renamed


def _taken(agent: Agent, version: str) -> Refused:
    free = next_free(agent)
    return Refused(
        "version_taken",
        f"version {version} of {agent.name} exists; the next free one is {free}",
        status=409,
        fields={"version": f"taken; {free} is free"},
        extra={"next_version": free},
    )


def _from_cards(tree: Path) -> list[str]:
    found = (_parsed(tree / name, json.loads) for name in CARD_FILES)
    return [str(card.get("version", "")).removeprefix("v") for card in found]


def _from_pyproject(tree: Path) -> list[str]:
    content = _parsed(tree / "pyproject.toml", _toml)
    tool = content.get("tool", {})
    tables = [content.get("project"), tool.get("poetry") if _is_table(tool) else None]
    return [str(each.get("version", "")) for each in tables if isinstance(each, dict)]


def _from_cargo(tree: Path) -> list[str]:
    package = _parsed(tree / "Cargo.toml", _toml).get("package")
    return [str(package.get("version", ""))] if isinstance(package, dict) else []


def _from_package(tree: Path) -> list[str]:
    return [str(_parsed(tree / "package.json", json.loads).get("version", ""))]


def _toml(text: str) -> dict[str, Any]:
    """Return what TOML says; ValueError also for what its parser would take hours for.

    The time for one key grows with more than the square of the number of its parts.
    """
    lines = text.splitlines()
    if len(text) > MAX_TOML or any(line.count(".") > MOST_DOTS for line in lines):
        raise ValueError("too large, or a key of too many parts")
    return tomllib.loads(text)


def _is_table(found: object) -> bool:
    return isinstance(found, dict)


def _parsed(path: Path, parse: Any) -> dict[str, Any]:
    """Return a small file's content as a table; an empty one for anything else."""
    try:
        if path.is_symlink() or path.stat().st_size > MAX_FILE_BYTES:
            return {}
        found = parse(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
