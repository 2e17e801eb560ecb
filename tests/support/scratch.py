"""How does a test get an empty database of its own, named by a URL for a process?

Made beside the suite's database and dropped afterwards, whatever is still connected.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from django.db import connection


def url_of(name: str) -> str:
    """Return the URL of a database on the suite's server, whichever way it is reached."""
    found = connection.get_connection_params() | {"dbname": name}
    parts = ("user", "password", "host", "port")
    known = {part: str(found[part]) for part in parts if found.get(part)}
    return f"postgresql:///{name}?{urlencode(known)}"


@contextmanager
def scratch_database() -> Iterator[str]:
    """Make an empty database, yield its name, drop it."""
    name = f"scratch_{uuid.uuid4().hex}"
    with connection._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    try:
        yield name
    finally:
        with connection._nodb_cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
