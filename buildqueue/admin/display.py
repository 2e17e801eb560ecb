"""How do a status, a link and a JSON value look? As safe HTML, the same everywhere.

A status is an icon and a word, never a color alone. Whatever comes from a row is
escaped; only addresses that browsers may follow become links.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from typing import Any, TypeAlias
from uuid import UUID

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import states
from ..models import BuildJob
from .ansi import Pen, segments
from .masking import masked

NOTHING = "–"  # noqa: RUF001 (an en dash, as the admin's own empty value)

Shown: TypeAlias = SafeString | str

# Status word -> (icon, tone); the tone only colors the icon's ring.
_LOOKS: dict[str, tuple[str, str]] = {
    "pending": ("○", "idle"),
    "queued": ("○", "idle"),
    "scheduled": ("◔", "idle"),
    "registered": ("○", "idle"),
    "in_progress": ("▶", "busy"),
    "building": ("▶", "busy"),
    "deploying": ("▶", "busy"),
    "starting": ("▶", "busy"),
    "waiting_input": ("◇", "doubt"),
    "waiting_approval": ("◇", "doubt"),
    "waiting_children": ("◇", "idle"),
    "waiting": ("◇", "idle"),
    "awaiting_review": ("◇", "doubt"),
    "approved": ("○", "idle"),
    "executing": ("▶", "busy"),
    "outcome_unknown": ("?", "bad"),
    "denied": ("⊘", "idle"),
    "paused": ("‖", "doubt"),
    "draining": ("◑", "doubt"),
    "silent": ("?", "doubt"),
    "interrupted": ("⊘", "idle"),
    "released": ("○", "idle"),
    "stopped": ("■", "idle"),
    "archived": ("■", "idle"),
    "pushed": ("○", "idle"),
    "cancelled": ("⊘", "idle"),
    "revoked": ("⊘", "idle"),
    "expired": ("⊘", "idle"),
    "done": ("✔", "good"),
    "success": ("✔", "good"),
    "succeeded": ("✔", "good"),
    "active": ("✔", "good"),
    "open": ("◇", "doubt"),
    "accepted": ("✔", "good"),
    "dismissed": ("⊘", "idle"),
    "superseded": ("■", "idle"),
    "running": ("✔", "good"),
    "failed": ("✖", "bad"),
    "crashed": ("✖", "bad"),
    "lost": ("✖", "bad"),
    "timed_out": ("✖", "bad"),
}


def badge(status: str | None, word: Any = None) -> Shown:
    """Return a status as icon and word."""
    if not status:
        return NOTHING
    icon, tone = _LOOKS.get(status, ("•", "idle"))
    return format_html(
        '<span class="bq-badge bq-{}"><span aria-hidden="true">{}\N{VARIATION SELECTOR-15}'
        "</span> {}</span>",
        tone,
        icon,
        word or status.replace("_", " "),
    )


def job_badge(status: str) -> Shown:
    """Return a job's status as icon and word."""
    return badge(status, states.JobStatus(status).label)


def action_badge(status: str) -> Shown:
    """Return an action's status as icon and word."""
    return badge(status, states.ActionStatus(status).label)


def tries(job: BuildJob) -> Shown:
    """Return the tries used up over those allowed, the number of claims as title."""
    return format_html(
        '<span title="{}">{}/{}</span>',
        claims(job.attempt),
        job.failures + job.crashes,
        job.max_attempts,
    )


def claims(number: int) -> str:
    """Return how often a job was claimed; not every claim uses a try up."""
    told = ngettext("claimed %(n)d time", "claimed %(n)d times", number)
    return told % {"n": number}


def short(identifier: UUID | None) -> str:
    """Return the eight letters that people tell an id by."""
    return str(identifier)[:8] if identifier else NOTHING


def event_name(kind: str) -> str:
    """Return the word for an event's kind."""
    if kind in states.EventKind.values:
        return str(states.EventKind(kind).label)
    return kind.replace("_", " ")


def signal_name(number: int) -> str:
    """Return a signal's name, its number where it has none here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return _("signal %(n)d") % {"n": number}


def link(address: str, words: Any) -> Shown:
    """Return a link, or the words alone when there is nowhere to go."""
    return format_html('<a href="{}">{}</a>', address, words) if address else str(words)


def outside(address: str | None) -> Shown:
    """Return a link to an address that somebody stored; only http(s) becomes one."""
    if not address:
        return NOTHING
    if not address.startswith(("http://", "https://")):
        return address
    return format_html('<a href="{0}" rel="noopener noreferrer">{0}</a>', address)


def pretty(value: Any) -> str:
    """Return a JSON value to be read, without what looks like a secret."""
    return json.dumps(masked(value), indent=2, ensure_ascii=False, default=str)


def block(text: str | None) -> Shown:
    """Return output as it was printed, without control sequences."""
    if not text:
        return NOTHING
    pen = Pen()
    lines = [
        "".join(piece for piece, _classes in segments(line, pen))
        for line in text.split("\n")
    ]
    return format_html('<pre class="bq-pre">{}</pre>', "\n".join(lines))


def code(text: str | None) -> Shown:
    """Return an error code as code."""
    return format_html("<code>{}</code>", text) if text else NOTHING


def mono(text: Any) -> Shown:
    """Return an id, a checksum or a key, to be broken anywhere in a narrow place."""
    return format_html('<code class="bq-id">{}</code>', text) if text else NOTHING


def names(found: Any) -> str:
    """Return the names in a column that maps them to ciphertext, or lists them."""
    listed = found if isinstance(found, Mapping | list | tuple) else ()
    return ", ".join(sorted(map(str, listed))) or NOTHING


def yes(is_so: bool) -> str:
    """Return a word for what is so, and a dash for what is not."""
    return _("yes") if is_so else NOTHING


def breakable(name: str) -> Shown:
    """Return a name in snake case that may be broken where its words end."""
    pieces = [(piece,) for piece in name.split("_")]
    return format_html_join(mark_safe("_<wbr>"), "{}", pieces)


def capped(number: int, cap: int) -> str:
    """Return a count, with a plus where counting stopped."""
    grouped = f"{min(number, cap):,}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{grouped}+" if number >= cap else grouped


def megabytes(number: int | None) -> str:
    """Return a size of memory."""
    return NOTHING if number is None else f"{number / 1_048_576:.0f} MiB"
