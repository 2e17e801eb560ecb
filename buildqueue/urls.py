"""Which addresses does the app serve? The JSON API, under `api/`.

Without the extra `api` (django-ninja) there is none: the list is empty, everything else
works, and reversing an address of the API fails.
"""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

app_name = "buildqueue"

urlpatterns: list[URLPattern | URLResolver] = []

if find_spec("ninja"):
    from .api.routing import patterns

    urlpatterns.append(path("api/", include(patterns)))
