"""A real browser on a real server, under the strictest content policy.

Needs Chromium: without it the tests say so and are skipped, except in CI.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from tests.factories import make_user

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; object-src 'none'"
ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"

OpenPage = Callable[..., Any]


def _chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    reason = "needs Chromium (apt-get install chromium)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a browser."""
    path = _chromium()
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    # The browser's driver runs an event loop in this thread; the ORM is used beside it.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, args=[*ARGUMENTS, *as_root]
        )
        yield started
        started.close()
        # Beside the driver's loop Django keeps a connection of its own.
        connections.close_all()


@pytest.fixture
def faults() -> list[str]:
    """Collect what the browser complained about: scripts, policy, missing files."""
    return []


@pytest.fixture
def open_page(browser: Any, live_server: Any, faults: list[str]) -> Iterator[OpenPage]:
    """Return a function that opens an address as a superuser, under the policy."""
    client = Client()
    client.force_login(make_user("ada", is_staff=True, is_superuser=True))
    session = client.cookies["sessionid"].value
    contexts = []

    def strict(route: Any) -> None:
        if not route.request.is_navigation_request():
            route.continue_()
            return
        answer = route.fetch(max_redirects=0)
        headers = {**answer.headers, "content-security-policy": POLICY}
        route.fulfill(response=answer, headers=headers)

    def open_(address: str, **options: Any) -> Any:
        context = browser.new_context(base_url=live_server.url, **options)
        contexts.append(context)
        context.add_cookies(
            [{"name": "sessionid", "value": session, "url": live_server.url}]
        )
        page = context.new_page()
        page.route("**/admin/**", strict)
        page.on("console", lambda m: m.type == "error" and faults.append(m.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")
        context.close()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Return where screenshots go: a folder of the test, the docs when asked."""
    if os.environ.get("UPDATE_SCREENSHOTS") != "1":
        return tmp_path
    IMAGES.mkdir(parents=True, exist_ok=True)
    return IMAGES
