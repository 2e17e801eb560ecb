"""What is wrong with the host's set-up? Told by `manage.py check`, with a way out.

buildqueue.E001  a setting is unknown or contradicts another
buildqueue.E002  the jobs' database is not PostgreSQL
buildqueue.E003  USE_TZ is off
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import connections, router

from . import conf


def register_all() -> None:
    """Register the checks; called once by the app's config."""
    checks.register(check_settings, "buildqueue")
    checks.register(check_database, "buildqueue")


def check_settings(app_configs: object, **kwargs: Any) -> Sequence[checks.CheckMessage]:
    """Tell unknown keys and contradictions of `BUILDQUEUE`, and missing time zones."""
    found = [
        checks.Error(
            fault, hint="See docs/reference/settings.md.", id="buildqueue.E001"
        )
        for fault in conf.get().faults
    ]
    if not settings.USE_TZ:
        found.append(
            checks.Error(
                "buildqueue needs USE_TZ = True.",
                hint="Due times and leases are moments, not local times.",
                id="buildqueue.E003",
            )
        )
    return found


def check_database(app_configs: object, **kwargs: Any) -> Sequence[checks.CheckMessage]:
    """Tell when the jobs would not be stored in PostgreSQL."""
    alias = router.db_for_write(apps.get_model("buildqueue", "BuildJob"))
    if connections[alias].vendor == "postgresql":
        return []
    return [
        checks.Error(
            f"The database {alias!r} is {connections[alias].display_name}; "
            "buildqueue needs PostgreSQL 15 or later.",
            hint="Set DATABASES, or a router for the app 'buildqueue'.",
            id="buildqueue.E002",
        )
    ]
