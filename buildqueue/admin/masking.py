"""What of a payload may be shown? All but what looks like a secret.

Pure. Values under a key that sounds like a secret are replaced whole; so are all values
of environments and headers, whose names alone are worth seeing, and passwords inside
addresses, and ciphertexts wherever they stand. Secrets are sealed before they reach a
payload; this is the second lock. A long text is cut, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "••••"
MAX_DEPTH = 32
LONGEST_TEXT = 20_000

_SECRET = re.compile(
    r"secret|token|passw|passphrase|pwd|credential|api_?key|private_?key|access_?key|signature"
    r"|encrypted|cipher|authorization|cookie|bearer|^auth$",
    re.IGNORECASE,
)
_NAMES_ONLY = re.compile(
    r"(^|_)(env|environ|environment|headers|build_args)($|_)", re.IGNORECASE
)
# What a secret rests as; under whatever key, nobody has to see it.
_CIPHERTEXT = re.compile(r"gAAAA[A-Za-z0-9_-]{40,}={0,2}")
# Begins with fixed characters: what looks for a scheme first is slow on long texts.
_USERINFO = re.compile(r"://[^/\s@]+@")


def masked(value: Any, depth: int = 0) -> Any:
    """Return the value with what looks like a secret replaced."""
    if depth > MAX_DEPTH:
        return MASK
    match value:
        case Mapping():
            return {key: _under(str(key), inner, depth) for key, inner in value.items()}
        case list() | tuple():
            return [masked(inner, depth + 1) for inner in value]
        case str():
            plain = _CIPHERTEXT.sub(MASK, value)
            return _cut(_USERINFO.sub(f"://{MASK}@", plain))
    return value


def _cut(text: str) -> str:
    """Return a text that a page can show; masked before, so that no login is cut in two."""
    more = len(text) - LONGEST_TEXT
    return text if more <= 0 else f"{text[:LONGEST_TEXT]}… ({more} characters more)"


def _under(key: str, value: Any, depth: int) -> Any:
    if value in (None, "", [], {}):
        return value
    if _NAMES_ONLY.search(key):
        return _names_only(value)
    if _SECRET.search(key) and not isinstance(value, bool):
        return MASK
    return masked(value, depth + 1)


def _names_only(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict.fromkeys(value, MASK)
    return MASK
