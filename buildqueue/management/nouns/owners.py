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
    keys = [key for key in _users("pk", text) if key == text]  # 01 is not the key 1
    found = keys or _users(get_user_model().USERNAME_FIELD, text)
    if len(found) == 1:
        return found[0]
    raise NotFound(
        f"no user has the name or key {text!r}; the key of another system's user is "
        f"written {FOREIGN}{text}"
    )


def likely_key(typed: str) -> str:
    """Return the owner key to look for: what is not known is taken as it is."""
    with suppress(NotFound):
        return key_of(typed)
    return words(typed)


def _users(field: str, text: str) -> list[str]:
    """Return the keys of the users, two at most; none for what no such field holds."""
    users = get_user_model()._default_manager
    try:
        found = users.filter(**{field: text}).values_list("pk", flat=True)
        return [str(pk) for pk in found[:2]]
    except (FieldError, ValidationError, ValueError, OverflowError):
        return []
