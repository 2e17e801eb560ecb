"""How do templates of the control room show statuses, moments and sizes?

Names for `admin/display.py`, which says how each looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import template
from django.utils.html import format_html

from ..admin import display, moments
from ..states import JobStatus

if TYPE_CHECKING:
    from ..admin.acts import Button

register = template.Library()

register.filter("job_badge", display.job_badge)
register.filter("action_badge", display.action_badge)
register.filter("ago", moments.ago)
register.filter("stamp", moments.stamp)
register.filter("short_id", display.short)
register.filter("code", display.code)
register.filter("megabytes", display.megabytes)
register.filter("pretty", display.pretty)
register.filter("outside", display.outside)
register.filter("tries", display.tries)
register.filter("claims", display.claims)


@register.filter
def took(row: Any) -> str:
    """Return how long a run or build lasted, until now when it has not ended."""
    ended = getattr(row, "ended_at", None) or getattr(row, "completed_at", None)
    started = getattr(row, "started_at", None) or getattr(row, "created_at", None)
    return moments.between(started, ended)


@register.filter
def wants(number: int) -> str:
    """Return how loudly a number of what waits for a person is told."""
    return "bq-wants" if number else ""


@register.filter
def target_name(row: Any) -> str:
    """Return the name of what a job is for."""
    target = getattr(row, "agent", None) or getattr(row, "connector", None)
    return str(target) if target else display.NOTHING


@register.filter
def run_badge(run: Any) -> Any:
    """Return how a run ended; one without an outcome still runs."""
    if run.outcome:
        return display.badge(run.outcome, run.get_outcome_display())
    return display.job_badge(JobStatus.IN_PROGRESS)


@register.filter
def exit_words(run: Any) -> str:
    """Return a process's exit code, or the name of the signal that ended it."""
    if run.exit_signal is not None:
        return display.signal_name(run.exit_signal)
    return display.NOTHING if run.exit_code is None else str(run.exit_code)


@register.filter
def possible(buttons: Iterable[Button]) -> list[Button]:
    """Return the buttons of what the row's state allows."""
    return [each for each in buttons or () if not each.why_not]


@register.filter
def not_now(buttons: Iterable[Button]) -> list[Button]:
    """Return the buttons of what the row's state does not allow."""
    return [each for each in buttons or () if each.why_not]


@register.filter
def event_words(event: Any) -> Any:
    """Return what happened, and the status or step it led to."""
    name = display.event_name(event.kind)
    if event.title in JobStatus.values:
        return format_html("{} → {}", name, display.job_badge(event.title))
    return f"{name}: {event.title}" if event.title else name


@register.filter
def row_badge(row: Any) -> Any:
    """Return the status of a row of any kind; nothing where it has none."""
    status = getattr(row, "status", None)
    return display.badge(status, row.get_status_display()) if status else ""
