"""Whose is it? A user by name or key, or the key that another system gave its users."""

from __future__ import annotations

from contextlib import suppress

from django.contrib.auth import get_user_model
from django.core.exceptions import FieldError, ValidationError

from ..finding import NotFound
from ..typed import words

FOREIGN = "key:"


def key_of(typed: str) -> str:
    """Return the owner key; a key goes before a name that looks like it.

    Somebody unknown is refused, so that a mistyped name owns nothing: who is known to
    another system alone is written with `key:` in front.
    """
    text = words(typed)
    if text.startswith(FOREIGN) and text != FOREIGN:
        return text.removeprefix(FOREIGN)
    found = _user("pk", text) or _user(get_user_model().USERNAME_FIELD, text)
    if found is None:
        raise NotFound(
            f"no user has the name or key {text!r}; the key of another system's user "
            f"is written {FOREIGN}{text}"
        )
    return found


def likely_key(typed: str) -> str:
    """Return the owner key to look for: what is not known is taken as it is."""
    with suppress(NotFound):
        return key_of(typed)
    return words(typed)


def _user(field: str, text: str) -> str | None:
    users = get_user_model()._default_manager.filter(**{field: text})
    try:
        found = list(users.values_list("pk", flat=True)[:2])
    except (FieldError, ValidationError, ValueError, OverflowError):
        return None  # names or keys of another type
    return str(found[0]) if len(found) == 1 else None
