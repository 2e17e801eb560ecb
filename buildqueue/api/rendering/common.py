"""What do several answers need? Addresses, faults, and documents that others wrote."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from django.urls import reverse

from ...queue import storing
from .. import schemas

# Of what is stored through the engine nothing is deeper: raw SQL may be.
DEEPEST = storing.DEEPEST + 1


def address(name: str, key: UUID) -> str:
    """Return the path of one of our addresses."""
    return reverse(f"buildqueue:{name}", args=[key])


def job_links(
    job_id: UUID,
    build_id: UUID | None,
    agent_id: UUID | None,
    connector_id: UUID | None = None,
) -> schemas.Links:
    """Return where a job and what belongs to it is found."""
    links = {
        "self": address("job", job_id),
        "job": address("job", job_id),
        "log": address("job_log", job_id),
        "events": address("job_events", job_id),
        "actions": address("job_actions", job_id),
    }
    if build_id:
        links["build"] = address("build", build_id)
    if agent_id:
        links["agent"] = address("agent", agent_id)
    if connector_id:
        links["connector"] = address("connector", connector_id)
    return links


def fault_of(code: str | None, message: str | None) -> schemas.Fault | None:
    """Return why it failed, if it did."""
    if code is None and message is None:
        return None
    return schemas.Fault(code=code or "failed", message=message or "")


def plain_url(url: str | None) -> str | None:
    """Return an address without user, password, query and fragment.

    Another system may have stored a token in one of them.
    """
    if not url:
        return None
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return None
    return urlunsplit((parts.scheme, host, parts.path, "", "")) if host else None


def shown_object(document: Any) -> dict[str, Any]:
    """Return what is shown of a column that holds an object, unless others wrote it."""
    shown = cut(document)
    return shown if isinstance(shown, dict) else {"value": shown}


def names_of(document: Any) -> list[str]:
    """Return the names in a column that maps them to ciphertext."""
    return sorted(document) if isinstance(document, dict) else []


def cut(document: Any, depth: int = 0) -> Any:
    """Return the document without what no reader of JSON would go down to."""
    match document:
        case dict() | list() if depth >= DEEPEST:
            return "…"
        case dict():
            return {name: cut(value, depth + 1) for name, value in document.items()}
        case list():
            return [cut(value, depth + 1) for value in document]
    return document
