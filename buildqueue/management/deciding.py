"""How does a shell decide on an outside effect? It is shown, confirmed, and bound by hash.

Whoever approves has seen the content: on a terminal it is shown and asked about; a program
names the hash of what it, or its master, has seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..exceptions import BuildQueueError
from ..models import JobAction
from ..queue import actions
from ..queue.outcomes import Actor
from ..states import ActionStatus
from . import work_text


class NotConfirmed(BuildQueueError):
    """The operator looked at it and did not say yes."""


class MustBeTold(BuildQueueError):
    """Nobody can be asked: what was seen must be named."""


def decide(
    do: str, action: JobAction, actor: Actor, options: dict[str, Any]
) -> Iterator[str]:
    """Decide on an action and say what it is then."""
    reason = options["reason"]
    match do:
        case "approve":
            seen = options["hash"] or action.content_hash
            _demand_hash(options)
            yield from work_text.action_lines(action)
            _confirm(action, options)
            decided = actions.approve(
                action.pk, content_hash=seen, actor=actor, reason=reason
            )
        case "deny":
            decided = actions.deny(
                action.pk,
                content_hash=action.content_hash,
                actor=actor,
                reason=reason,
            )
        case _:
            decided = actions.settle(
                action.pk, happened=options["happened"], actor=actor, reason=reason
            )
    yield f"{decided.pk} is {decided.status}"


def _demand_hash(options: dict[str, Any]) -> None:
    if sys.stdin.isatty() or (options["yes"] and options["hash"]):
        return
    raise MustBeTold(
        "nobody can be asked here: add --yes, and --hash with the hash of the content "
        "that was looked at (`actions` tells it)"
    )


def _confirm(action: JobAction, options: dict[str, Any]) -> None:
    """Ask, unless told not to; what is decided already needs no question."""
    if options["yes"] or action.status != ActionStatus.AWAITING_REVIEW:
        return
    try:
        said = input("Let this be done? [y/N] ")
    except EOFError:
        said = ""
    if said.strip().lower() not in ("y", "yes"):
        raise NotConfirmed("not approved: nothing was changed")
