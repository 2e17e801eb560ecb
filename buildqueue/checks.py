"""What is wrong with the host's set-up? Told by `manage.py check`, with a way out.

buildqueue.E001  a setting is unknown or contradicts another
buildqueue.E002  the jobs' database is not PostgreSQL
buildqueue.E003  USE_TZ is off
buildqueue.E004  a provider of environments cannot be imported
buildqueue.W001  a key that encrypts secrets is short
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import connections, router
from django.utils.module_loading import import_string

from . import conf

SHORTEST_KEY = 32


def register_all() -> None:
    """Register the checks; called once by the app's config."""
    checks.register(check_settings, "buildqueue")
    checks.register(check_database, "buildqueue")
    checks.register(check_secrets, "buildqueue")


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


def check_secrets(app_configs: object, **kwargs: Any) -> Sequence[checks.CheckMessage]:
    """Tell keys that could be guessed, by their place, and providers that are not there."""
    settings = conf.get()
    found: list[checks.CheckMessage] = [
        checks.Warning(
            f"BUILDQUEUE['SECRET_KEYS'][{place}] is shorter than {SHORTEST_KEY} "
            "characters.",
            hint="Put a long random one before it and rotate the secrets.",
            id="buildqueue.W001",
        )
        for place, key in enumerate(settings.secret_keys)
        if len(key) < SHORTEST_KEY
    ]
    return found + [
        checks.Error(
            f"BUILDQUEUE['ENV_PROVIDERS'] names {path!r}, which cannot be imported.",
            hint="Each is a dotted path to a function.",
            id="buildqueue.E004",
        )
        for path in settings.env_providers
        if not _is_function(path)
    ]


def _is_function(path: str) -> bool:
    try:
        return callable(import_string(path))
    except ImportError:
        return False
