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
from . import actions, agents, builds, errors, jobs
from .auth import BearerToken, Session

api = NinjaAPI(
    title="buildqueue",
    version=__version__,
    description="Upload agents, follow their builds, stop them.",
    urls_namespace="buildqueue",
    docs_url=None,
    auth=[BearerToken(), Session()],
)
errors.install(api)
for router in (agents.router, builds.router, jobs.router, actions.router):
    api.add_router("", router)

OURS = r"^(?:actions|agents|builds|jobs)(?:/.*)?$"


def _patterns() -> list[URLPattern | URLResolver]:
    made, _, _ = api.urls
    made.append(re_path(OURS, errors.no_such_address))
    for pattern in made:
        if isinstance(pattern, URLPattern):
            pattern.callback = errors.at_the_edge(pattern.callback)
    return made


patterns = _patterns()
