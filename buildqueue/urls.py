"""Which addresses does the app serve? The JSON API under /api/."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

app_name = "buildqueue"

urlpatterns: list[URLPattern | URLResolver] = []
