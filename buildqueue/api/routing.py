"""At which addresses is the API? Built once, of the routers.

The names of addresses stand in the app's own namespace (`buildqueue:job`), which is
also django-ninja's `urls_namespace`: no second API of the host can clash with it. The
bundled documentation page is left out, for it loads scripts from elsewhere; the schema
is served at `openapi.json`.
"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, re_path
from ninja import NinjaAPI

from .. import __version__
from . import (
    actions,
    agents,
    builds,
    connectors,
    deploying,
    environment,
    errors,
    grants,
    history,
    jobs,
    watches,
)
from .auth import BearerToken, Session

api = NinjaAPI(
    title="buildqueue",
    version=__version__,
    description="Build and deploy agents and connectors, follow them, stop them.",
    urls_namespace="buildqueue",
    docs_url=None,
    auth=[BearerToken(), Session()],
)
errors.install(api)
# What is asked of an agent by a word stands before the agent by its id.
ROUTERS = (
    deploying.router,
    agents.router,
    history.router,
    environment.router,
    grants.router,
    watches.router,
    builds.router,
    jobs.router,
    actions.router,
    connectors.router,
)
for router in ROUTERS:
    api.add_router("", router)

FAMILIES = "actions|agents|builds|github|jobs|mcp|proposals|secrets|watches"
OURS = rf"^(?:{FAMILIES})(?:/.*)?$"


def _patterns() -> list[URLPattern | URLResolver]:
    made, _, _ = api.urls
    made.append(re_path(OURS, errors.no_such_address))
    for pattern in made:
        if isinstance(pattern, URLPattern):
            pattern.callback = errors.at_the_edge(pattern.callback)
    return made


patterns = _patterns()
