"""With which key is an owner's secret encrypted? With one that is theirs alone.

Derived by HKDF from each of the host's keys and the owner's id, so a ciphertext that was
moved to another owner's row cannot be read. The newest key writes, all of them read.
What cannot be read is refused, never left out; no message holds a value.
"""

from __future__ import annotations

import base64
from contextlib import suppress

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ... import conf
from ...exceptions import Rejected

# By another key; or no ciphertext at all, which the database cannot rule out.
_NOT_READ = (InvalidToken, TypeError, ValueError)


def encrypt(owner_id: str, text: str) -> str:
    """Return the text as ciphertext that only this owner's key reads."""
    return _of(owner_id).encrypt(text.encode()).decode("ascii")


def decrypt(owner_id: str, token: str) -> str:
    """Return the text; Rejected when no key of this host reads it."""
    try:
        return _of(owner_id).decrypt(token).decode()
    except _NOT_READ:
        raise unreadable() from None


def renewed(owner_id: str, token: str) -> str | None:
    """Return the ciphertext under the newest key; None when it is already."""
    newest = Fernet(_keys(b"buildqueue owner " + owner_id.encode())[0])
    with suppress(*_NOT_READ):
        newest.decrypt(token)
        return None
    try:
        return _of(owner_id).rotate(token).decode("ascii")
    except _NOT_READ:
        raise unreadable() from None


def runtime_keys(host_id: str) -> str:
    """Return the keys of what the runtime of a host keeps on its disk, with commas.

    The newest is first and seals; the others open what was sealed before a rotation.
    """
    keys = _keys(b"buildqueue runtime " + host_id.encode())
    return ",".join(key.decode("ascii") for key in keys)


def unreadable(name: str | None = None) -> Rejected:
    """Return the refusal of a ciphertext; the name is that of its variable."""
    which = f"the stored secret {name}" if name else "a stored secret"
    return Rejected(
        "secret_unreadable",
        f"{which} cannot be read with the keys of this host: add the key that it was "
        "written with to SECRET_KEYS, or set the secret again",
    )


def _of(owner_id: str) -> MultiFernet:
    keys = _keys(b"buildqueue owner " + owner_id.encode())
    return MultiFernet([Fernet(key) for key in keys])


def _keys(info: bytes) -> list[bytes]:
    """Return a key for this use from each of the host's, newest first."""
    return [_derived(material, info) for material in conf.get().key_material()]


def _derived(material: bytes, info: bytes) -> bytes:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=info)
    return base64.urlsafe_b64encode(derived.derive(material))
