"""How is a verb applied to many rows, and what is told about it?

One call a row, each in its own transaction: if the server dies in it, the rows so far
are done and the rest untouched. A row whose state has changed meanwhile is refused by
the verb itself, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.utils.translation import ngettext

from ..exceptions import BuildQueueError
from ..queue.outcomes import Actor

if TYPE_CHECKING:
    from .acts import Act

MOST_REASONS = 3
_ID_IN_MESSAGE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def apply(
    act: Act, rows: Sequence[Any], actor: Actor, reason: str, given: Mapping[str, Any]
) -> tuple[list[Any], list[BuildQueueError]]:
    """Return the rows that the verb was applied to, and how it refused the others."""
    applied, refused = [], []
    for row in rows:
        try:
            act.call(row, actor, reason, **given)
        except BuildQueueError as refusal:
            refused.append(refusal)
        else:
            applied.append(row)
    return applied, refused


def level(applied: Sequence[Any], refused: Sequence[BuildQueueError]) -> int:
    """Return how loudly the message is told."""
    if not refused:
        return messages.SUCCESS
    return messages.WARNING if applied else messages.ERROR


def summary(
    act: Act, applied: Sequence[Any], refused: Sequence[BuildQueueError]
) -> str:
    """Return the one message, with both numbers and the first reasons."""
    done = ngettext("%(n)d applied", "%(n)d applied", len(applied))
    parts = [done % {"n": len(applied)}]
    if refused:
        words = ngettext("%(n)d refused", "%(n)d refused", len(refused))
        reasons = "; ".join(map(_shortened, refused[:MOST_REASONS]))
        more = " …" if len(refused) > MOST_REASONS else ""
        parts.append(f"{words % {'n': len(refused)}} ({reasons}{more})")
    return f"{act.label}: {', '.join(parts)}."


def _shortened(refusal: BuildQueueError) -> str:
    """Return why, with ids as people tell them, and no full stop of its own."""
    return _ID_IN_MESSAGE.sub(lambda m: m[0][:8], str(refusal)).rstrip(".")
