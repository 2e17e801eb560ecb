"""How does an instance's environment lie on disk? Sealed, with a key that never does.

The worker gives the key when it starts the daemon, and the daemon takes it out of its
environment before anything else: no keeper, instance or command line ever holds it. Of
several keys, newest first, the first seals and each opens. A daemon that was given none
makes one up: what it sealed nobody can open after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from typing import Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from buildqueue.backends.localruntime.service import KEY_VARIABLE
from buildqueue.exceptions import Rejected


class Sealer:
    """Seals and opens environments; an empty one is the empty text."""

    def __init__(self, keys: str | None = None) -> None:
        given = [part for part in (keys or "").split(",") if part]
        self.is_lasting = bool(given)
        ciphers = [Fernet(key) for key in given or [Fernet.generate_key().decode()]]
        self._newest, self._cipher = ciphers[0], MultiFernet(ciphers)

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str]) -> Self:
        """Return the sealer whose keys stand in the environment, and remove them."""
        try:
            return cls(environ.pop(KEY_VARIABLE, None))
        except ValueError:
            raise Rejected(
                "runtime_key_invalid",
                f"{KEY_VARIABLE} holds no keys: leave it to the worker, or unset it",
            ) from None

    def seal(self, env: Mapping[str, str]) -> str:
        """Return what may be written to disk."""
        if not env:
            return ""
        return self._cipher.encrypt(json.dumps(dict(env)).encode()).decode()

    def open(self, sealed: str) -> dict[str, str]:
        """Return the environment; never less than was sealed."""
        if not sealed:
            return {}
        try:
            opened = self._cipher.decrypt(sealed.encode())
        except InvalidToken:
            raise Rejected(
                "environment_unreadable",
                "the environment was sealed with another key, so nothing was started "
                "without it: deploy again",
            ) from None
        found: dict[str, str] = json.loads(opened)
        return found

    def renewed(self, sealed: str) -> str:
        """Return the same, sealed with the newest key; what nobody opens stays as it is."""
        if not sealed or self._newest_opens(sealed) or not self.can_open(sealed):
            return sealed
        return self._cipher.rotate(sealed.encode()).decode()

    def _newest_opens(self, sealed: str) -> bool:
        try:
            self._newest.decrypt(sealed.encode())
        except InvalidToken:
            return False
        return True

    def can_open(self, sealed: str) -> bool:
        """Tell whether `open` would succeed."""
        try:
            self.open(sealed)
        except Rejected:
            return False
        return True
