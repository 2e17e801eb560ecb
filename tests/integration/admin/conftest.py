"""Who looks at the control room? Staff with exactly the permissions that a test names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.factories import make_user

Login = Callable[..., Client]


@pytest.fixture
def login(db: None) -> Login:
    """Return a function that gives a browser of a staff user with permissions."""

    def make(*permissions: str, **options: object) -> Client:
        name = options.pop("name", None) or "-".join(permissions)[:140] or "nobody"
        client = Client()
        client.force_login(make_user(str(name), *permissions, is_staff=True, **options))
        return client

    return make


@pytest.fixture
def root(login: Login) -> Client:
    """Return a superuser's browser."""
    return login(name="root", is_superuser=True)
