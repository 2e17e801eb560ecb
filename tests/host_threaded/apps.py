"""Starts a thread that lives as long as the process."""

from __future__ import annotations

import threading

from django.apps import AppConfig


class ThreadedConfig(AppConfig):
    """Opens a thread while the apps are loaded."""

    name = "tests.host_threaded"

    def ready(self) -> None:
        """Start the thread."""
        wait = threading.Event().wait
        threading.Thread(target=wait, name="a-library", daemon=True).start()
