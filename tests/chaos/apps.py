"""Makes the chaos test an app, so that workers find its kinds."""

from __future__ import annotations

import os

from django.apps import AppConfig


class ChaosConfig(AppConfig):
    """The app; takes the fence out of this process where the run is told to."""

    name = "tests.chaos"
    label = "chaos"

    def ready(self) -> None:
        """Interfere, if told so."""
        from . import unfenced

        if os.environ.get(unfenced.VARIABLE):
            unfenced.take_out()
