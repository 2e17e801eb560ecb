"""How are moments and lengths of time told? In words relative to now.

The words are the server's, so they are right without a script; the exact moment stands
beside them, in the reader's zone.
"""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext as _

from .. import clock
from .display import NOTHING, Shown


def span(seconds: float) -> str:
    """Return a length of time in its two largest units."""
    whole = max(int(seconds), 0)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return _("%(days)d d %(hours)d h") % {"days": days, "hours": hours}
    if hours:
        return _("%(hours)d h %(min)d min") % {"hours": hours, "min": minutes}
    if minutes:
        return _("%(min)d min %(sec)d s") % {"min": minutes, "sec": rest}
    return _("%(sec)d s") % {"sec": rest}


def about(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    whole = max(int(seconds), 0)
    if whole >= 2 * 86400:
        return _("%(days)d d") % {"days": whole // 86400}
    if whole >= 2 * 3600:
        return _("%(hours)d h") % {"hours": whole // 3600}
    if whole >= 2 * 60:
        return _("%(min)d min") % {"min": whole // 60}
    return _("%(sec)d s") % {"sec": whole}


def about_between(start: datetime | None, end: datetime | None) -> str:
    """Return the time between two moments in its largest unit; None is now."""
    now = clock.now()
    return about(((end or now) - (start or now)).total_seconds())


def between(start: datetime | None, end: datetime | None) -> str:
    """Return the time from one moment to another, to now when it has not come."""
    if start is None:
        return NOTHING
    return span(((end or clock.now()) - start).total_seconds())


def between_now_and(moment: datetime) -> str:
    """Return the time until a moment."""
    return span((moment - clock.now()).total_seconds())


def ago(moment: datetime | None) -> Shown:
    """Return a moment relative to now, the exact one as its title."""
    if moment is None:
        return NOTHING
    seconds = (clock.now() - moment).total_seconds()
    words = _("%(span)s ago") if seconds >= 0 else _("in %(span)s")
    return stamp(moment, words % {"span": about(abs(seconds))})


def stamp(moment: datetime | None, words: str = "") -> Shown:
    """Return a moment as `<time>`, in the reader's zone."""
    if moment is None:
        return NOTHING
    local = timezone.localtime(moment)
    exact = date_format(local, "Y-m-d H:i:s")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        local.isoformat(timespec="milliseconds"),
        exact,
        words or exact,
    )
