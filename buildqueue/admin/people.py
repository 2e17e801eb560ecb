"""Who is behind an owner key? The user's name, where a user with that key exists.

Keys are stored as text and may be another system's: one that is no primary key of this
host's users is shown as it is. One query for all keys of a page, none without keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import FieldError, ValidationError

from . import display

MOST_NAMESAKES = 20


def names(keys: Iterable[str | None]) -> dict[str, str]:
    """Return the names of the users that these keys stand for."""
    known = {key: pk for key in keys if key and (pk := _pk_of(key)) is not None}
    if not known:
        return {}
    model = get_user_model()
    users = model._default_manager.filter(pk__in=set(known.values()))
    found = dict(users.values_list("pk", model.USERNAME_FIELD))
    return {key: str(found[pk]) for key, pk in known.items() if pk in found}


def keys_of(name: str) -> list[str]:
    """Return the keys of the users of this name; none when no name looks like it."""
    model = get_user_model()
    users = model._default_manager.filter(**{model.USERNAME_FIELD: name})
    try:
        return [str(pk) for pk in users.values_list("pk", flat=True)[:MOST_NAMESAKES]]
    except (FieldError, ValidationError, ValueError):  # names of another type
        return []


def words(key: str | None, name: str | None) -> str:
    """Return a key as it is shown, beside the user's name."""
    if not key:
        return display.NOTHING
    return f"{name} ({key})" if name and name != key else key


def shown(key: str | None) -> str:
    """Return one key as it is shown, for the page of one row."""
    return words(key, names([key]).get(key or ""))


def name_owners(rows: Sequence[Any]) -> None:
    """Put the owner's name beside the key of each row of a list."""
    found = names(row.owner_id for row in rows)
    for row in rows:
        row.owner_name = found.get(row.owner_id)


def owner_of(row: Any) -> str:
    """Return the owner of a row; asked for once a list, else once a row."""
    if not hasattr(row, "owner_name"):
        name_owners([row])
    return words(row.owner_id, row.owner_name)


def _pk_of(key: str) -> Any:
    """Return the key as a primary key of the users, None when it cannot be one."""
    field: Any = get_user_model()._meta.pk
    field = getattr(field, "target_field", field)
    try:
        pk = field.to_python(key)
        field.run_validators(pk)
    except (ValidationError, ValueError, TypeError, OverflowError):
        return None
    return pk if str(pk) == key else None
