"""How are ports, limits and a folder of its own told, as asked for or as used?

The columns are JSON that another system may have written: what is not understood is
shown as it is, and never breaks a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from ..models import Agent, AgentDeployment
from . import display


def ports(found: Sequence[int] | None) -> str:
    """Return the ports, or that the source says them."""
    return ", ".join(map(str, found or ())) or _("as its source says")


def limits(found: Any) -> str:
    """Return the limits in words."""
    if not isinstance(found, Mapping):
        return display.NOTHING
    words = {
        "memory_mb": _("memory %(n)s MiB"),
        "cpus": _("processors %(n)s"),
        "processes": _("processes %(n)s"),
    }
    known = [
        told % {"n": found[name]}
        for name, told in words.items()
        if found.get(name) is not None
    ]
    others = [f"{name}: {found[name]}" for name in found if name not in words]
    told = [*known, *others]
    return ", ".join(told) or _("those of its host")


def writable(row: Agent | AgentDeployment) -> str:
    """Return whether it has a folder to write to, and where."""
    if not row.writable:
        return _("no")
    if not row.writable_path:
        return _("yes")
    return _("yes, in %(folder)s") % {"folder": row.writable_path}
