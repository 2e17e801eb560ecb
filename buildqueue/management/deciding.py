"""How does a shell decide on an outside effect? It is shown, confirmed, and bound by hash.

Whoever approves has seen the content: on a terminal it is shown and asked about; a program
names the hash of what it, or its master, has seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..exceptions import BuildQueueError, Refused
from ..models import JobAction
from ..queue import actions
from ..queue.outbox import wording
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
            _demand_hash(action, options)
            _compare(action, options["hash"] or "")
            yield from work_text.action_lines(action)
            _confirm(action, options)
            decided = actions.approve(
                action.pk,
                content_hash=action.content_hash,
                actor=actor,
                reason=reason,
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


def _demand_hash(action: JobAction, options: dict[str, Any]) -> None:
    missing = [f"--{name}" for name in ("yes", "hash") if not options[name]]
    if sys.stdin.isatty() or not missing:
        return
    raise MustBeTold(
        f"nobody can be asked here: {' and '.join(missing)} missing; --hash is that of "
        f"the content you have seen, and `{wording.actions(action.job_id)}` shows both"
    )


def _compare(action: JobAction, given: str) -> None:
    if not action.content_hash.startswith(given):
        raise Refused(
            "content_changed",
            "the hash given is not that of the content: "
            f"`{wording.actions(action.job_id)}` shows both",
            status=409,
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
