"""How does a shell keep an owner's secrets? It tells names and times, never a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ...builds import secrets
from ...builds.secrets import RotationReport
from ...exceptions import BuildQueueError
from ..finding import NotFound
from ..shown import moment
from ..typed import words
from . import given, options, owners
from .confirming import confirm
from .showing import Answer, table


class NotRotated(BuildQueueError):
    """Some ciphertexts are not under the newest key; each was told."""


def add(verbs: Any) -> None:
    """Add the verbs."""
    options.owner(
        options.verb(verbs, "list", "List the names of an owner's secrets."),
        required=True,
    )
    store = options.verb(
        verbs, "set", "Keep a secret: piped in, or typed unseen on a terminal."
    )
    remove = options.verb(verbs, "remove", "Forget a secret.")
    for command in (store, remove):
        command.add_argument("name", type=words, help="The secret's name.")
        options.owner(command, required=True)
    store.add_argument(
        "--from-env",
        type=options.variable,
        metavar="NAME",
        help="Take the value from the command's own environment.",
    )
    options.sure(remove)
    options.verb(
        verbs, "rotate", "Encrypt everything of every owner by the newest key."
    )


def answer(verb: str, asked: Mapping[str, Any]) -> Answer:
    """Return the answer of a verb."""
    if verb == "rotate":
        return _rotated(secrets.rotate())
    owner_id = owners.key_of(asked["owner"])
    match verb:
        case "list":
            return _listing(owner_id)
        case "set":
            name = asked["from_env"]
            value = given.variable(name) if name else given.typed_secret("Value: ")
            secrets.set_secret(owner_id, asked["name"], value)
            return _done(owner_id, asked["name"], "set")
    name = asked["name"]
    confirm(f"delete the secret {name!r} of {owner_id}", asked)
    if not secrets.remove_secret(owner_id, name):
        raise NotFound(f"{owner_id!r} has no secret {name!r}")
    return _done(owner_id, name, "removed")


def _listing(owner_id: str) -> Answer:
    found = secrets.names(owner_id)
    told = ((each.name, moment(each.updated_at)) for each in found)
    return Answer(
        document={"owner_id": owner_id, "secrets": [asdict(each) for each in found]},
        lines=table("name set", told),
    )


def _done(owner_id: str, name: str, word: str) -> Answer:
    document = {"status": "done", "owner_id": owner_id, "name": name}
    return Answer(document=document, lines=[f"{name} is {word}"])


def _rotated(report: RotationReport) -> Answer:
    left = len(report.unreadable) + len(report.busy)
    why = f"{left} of them are not under the newest key" if left else None
    return Answer(
        document={"status": "failed" if left else "done", **asdict(report)},
        lines=_report_lines(report),
        failure=NotRotated(why) if why else None,
    )


def _report_lines(report: RotationReport) -> Iterator[str]:
    yield f"{report.rotated} rotated, {report.current} under the newest key already"
    for word, rows in (("unreadable", report.unreadable), ("busy", report.busy)):
        for row in rows:
            yield f"{word}: {row.column} {row.id} {row.name or ''}".rstrip()
