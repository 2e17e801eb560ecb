"""How does a shell see, build, refresh and delete MCP connectors?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...builds.connectors.refreshing import refresh_tools
from ...builds.connectors.retirement import delete_connector
from ...builds.connectors.submission import ConnectorSubmission, submit_connector
from ...models import BuildJob, McpConnector, McpConnectorBuild, McpConnectorTool
from ...queue.outcomes import Actor
from ...states import ConnectorProvider
from .. import typed
from ..shown import cut, short
from . import agentoptions, given, options, owners, rows
from .confirming import confirm
from .naming import find_connector
from .showing import FOLLOW, Answer, facts, fields, table

CONNECTOR = "The connector: owner/name, its name when it is the only one, or its id."
DEFAULT_VERSION = "1.0.0"
TOOL = "name title description input_schema seen_at"


def add(verbs: Any) -> None:
    """Add the verbs."""
    listing = options.verb(verbs, "list", "List connectors, the newest first.")
    options.owner(listing, required=False)
    options.limited(listing)
    for name, text in {
        "show": "Show a connector with its tools and newest build.",
        "tools": "List a connector's tools, as its server told them last.",
    }.items():
        options.verb(verbs, name, text).add_argument("connector", help=CONNECTOR)
    upload = options.verb(
        verbs, "upload", "Build and run an archive or a folder as a connector."
    )
    upload.add_argument("name", type=typed.words, help="The connector's name.")
    upload.add_argument("source", help=agentoptions.SOURCE)
    clone = options.verb(verbs, "clone", "Build and run a repository as a connector.")
    clone.add_argument("name", type=typed.words, help="The connector's name.")
    options.repository(clone, required=True)
    for command in (upload, clone):
        options.owner(command, required=True)
        options.environment(command)
        command.add_argument(
            "--version",
            type=typed.words,
            default=DEFAULT_VERSION,
            help=f"What this build is called ({DEFAULT_VERSION}).",
        )
        command.add_argument(
            "--display-name", type=typed.words, help="What people read as its name."
        )
        options.waiting(command)
    refresh = options.verb(verbs, "refresh", "Ask a connector for its tools again.")
    refresh.add_argument("connector", help=CONNECTOR)
    options.waiting(refresh)
    delete = options.verb(verbs, "delete", "Delete a connector, and end its processes.")
    delete.add_argument("connector", help=CONNECTOR)
    options.sure(delete)
    options.reason(delete)
    options.waiting(delete)


def answer(verb: str, asked: Mapping[str, Any], actor: Actor) -> Answer:
    """Return the answer of a verb."""
    match verb:
        case "list":
            return _listing(asked)
        case "upload" | "clone":
            return _built(asked, actor)
    connector = find_connector(asked["connector"])
    match verb:
        case "show":
            return _show(connector)
        case "tools":
            return _tools(connector)
        case "refresh":
            job = refresh_tools(connector, actor=actor)
            return _queued(connector, [job], "refresh")
    whose = f"{connector.owner_id}/{connector.name} ({connector.pk})"
    confirm(f"delete connector {whose} and end its processes", asked)
    jobs = delete_connector(connector, actor=actor, reason=asked["reason"])
    return _queued(connector, jobs, "deleted")


def _listing(asked: Mapping[str, Any]) -> Answer:
    found = McpConnector.objects.filter(
        deleted_at__isnull=True, provider_type=ConnectorProvider.MCP_SERVER
    )
    if asked["owner"]:
        found = found.filter(owner_id=owners.likely_key(asked["owner"]))
    listed = list(found.order_by("-created_at", "-id")[: asked["limit"]])
    told = (
        (
            each.pk,
            cut(each.owner_id),
            each.name,
            each.build_status or each.source_kind,
            known["url"],
        )
        for each in listed
        if (known := rows.connector(each))
    )
    return Answer(
        document={"connectors": [rows.connector(each) for each in listed]},
        lines=table("id owner name status url", told),
    )


def _show(connector: McpConnector) -> Answer:
    builds = McpConnectorBuild.objects.filter(connector=connector).defer(*rows.HIDDEN)
    build = builds.order_by("-created_at", "-id").first()
    known, tools = rows.connector(connector), _tools_of(connector)
    last = rows.connector_build(build) if build else None
    return Answer(
        document=known | {"tools": tools, "build": last},
        lines=_shown(known, tools, last),
    )


def _shown(
    known: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    build: Mapping[str, Any] | None,
) -> Iterator[str]:
    yield from facts({**known, "tools": [tool["name"] for tool in tools]})
    if build:
        yield ""
        yield "build"
        yield from (f"  {line}" for line in facts(build))


def _tools(connector: McpConnector) -> Answer:
    tools = _tools_of(connector)
    told = (
        (tool["name"], tool["title"], (tool["description"] or "")[:80])
        for tool in tools
    )
    return Answer(
        document=_of(connector, "tools", tools),
        lines=table("name title description", told),
    )


def _tools_of(connector: McpConnector) -> list[dict[str, Any]]:
    found = McpConnectorTool.objects.filter(connector=connector).order_by("name")
    return [fields(tool, TOOL) for tool in found]


def _built(asked: Mapping[str, Any], actor: Actor) -> Answer:
    wanted: dict[str, Any] = {
        "owner_id": owners.key_of(asked["owner"]),
        "caller": actor,
        "name": asked["name"],
        "version": asked["version"],
        "env": given.environment(asked),
        "display_name": asked["display_name"],
    }
    if asked.get("git"):
        return _submitted(submit_connector(git=given.git(asked), **wanted))
    with given.source(asked["source"]) as stream:
        return _submitted(submit_connector(source=stream, **wanted))


def _submitted(made: ConnectorSubmission) -> Answer:
    answered = _queued(made.connector, [made.job], made.build.version_tag)
    more = {"build_id": made.build.pk, "version": made.build.version_tag}
    follow = FOLLOW.format(job=short(made.job.pk))
    return Answer(
        document={**answered.document, **more},
        lines=[*answered.lines, follow],
        jobs=[made.job],
    )


def _queued(connector: McpConnector, jobs: Sequence[BuildJob], word: str) -> Answer:
    document = _of(connector, "job_ids", [job.pk for job in jobs]) | {
        "status": "queued" if jobs else "done",
        "job_id": jobs[0].pk if jobs else None,
    }
    told = [f"{connector.name}: {word}, job {job.pk} is queued" for job in jobs]
    nothing = [f"{connector.name}: {word}; no process of it runs"]
    return Answer(document=document, lines=told or nothing, jobs=jobs)


def _of(connector: McpConnector, name: str, listed: object) -> dict[str, Any]:
    known = {"connector_id": connector.pk, "connector_name": connector.name}
    return known | {name: listed}
