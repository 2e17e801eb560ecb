"""How does Django find the app?"""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class BuildQueueConfig(AppConfig):
    """The app; handlers are found in `<app>/jobs.py` of every installed app."""

    name = "buildqueue"
    label = "buildqueue"
    verbose_name = _("Build queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks and the kinds of all apps."""
        from . import checks
        from .queue import handlers

        checks.register_all()
        handlers.load_own_kinds()
        autodiscover_modules("jobs")
