"""Is it really meant? What cannot be taken back is asked about, or needs --yes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..deciding import MustBeTold, NotConfirmed


def confirm(what: str, options: Mapping[str, Any]) -> None:
    """Return when it may be done: `what` says what will be gone."""
    if options["yes"]:
        return
    if not sys.stdin.isatty():
        raise MustBeTold(f"nobody can be asked here: --yes missing, to {what}")
    sys.stderr.write(f"This will {what}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmed("not confirmed: nothing was changed")
