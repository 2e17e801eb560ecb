"""Which agent, connector, watch or proposal is meant by what was typed?

Agents and connectors answer to owner/name, to their name when no other owner has it, and
to their id or the beginning of it. What was deleted answers to its whole id alone.
"""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.db.models import QuerySet

from ...models import Agent, McpConnector, Proposal, SourceWatch
from ...states import ConnectorProvider
from ..finding import NotFound, find
from ..typed import words
from . import owners

MOST_TOLD = 5


def find_agent(typed: str) -> Agent:
    """Return the agent that is meant."""
    return cast("Agent", _named(Agent.objects.all(), "agent", typed))


def find_connector(typed: str) -> McpConnector:
    """Return the connector that is meant."""
    rows = McpConnector.objects.filter(provider_type=ConnectorProvider.MCP_SERVER)
    return cast("McpConnector", _named(rows, "connector", typed))


def find_watch(typed: str) -> SourceWatch:
    """Return the watch with this id or beginning of one."""
    rows = SourceWatch.objects.select_related("agent")
    return cast("SourceWatch", find(rows, "watch", typed))


def find_proposal(typed: str) -> Proposal:
    """Return the proposal with this id or beginning of one."""
    rows = Proposal.objects.select_related("agent", "watch")
    return cast("Proposal", find(rows, "proposal", typed))


def _named(rows: QuerySet[Any], word: str, typed: str) -> Any:
    text = words(typed)
    if _is_id(text):
        return find(rows, word, text)
    live = rows.filter(deleted_at__isnull=True)
    owner, slash, name = text.rpartition("/")
    named = live.filter(name=name)
    if slash:
        named = named.filter(owner_id=owners.likely_key(owner))
    found = list(named.order_by("owner_id")[: MOST_TOLD + 1])
    if len(found) > 1:
        listed = ", ".join(f"{row.owner_id}/{row.name}" for row in found[:MOST_TOLD])
        raise NotFound(f"several owners have {name!r}: say which one: {listed}")
    if found:
        return found[0]
    if slash:
        raise NotFound(f"{owner!r} has no {word} named {name!r}")
    return _begun(live, word, text)


def _begun(live: QuerySet[Any], word: str, text: str) -> Any:
    try:
        return find(live, word, text)
    except NotFound as error:
        raise NotFound(f"no {word} is named {text!r}, and {error}") from None


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
