"""How do secrets rest in the database? As ciphertext under their owner's own key.

    keys       what a key is, and one text
    variables  environments: which names and values, and all of them at once
    vault      what an owner has left with us under a name
    rotation   everything under the newest key

In clear they exist where a process is started with them, and nowhere else.
"""

from __future__ import annotations

from .keys import decrypt, encrypt, runtime_keys
from .rotation import RotationReport, rotate
from .variables import check_env, check_stored, decrypt_env, encrypt_env
from .vault import SecretName, names, read_secret, remove_secret, set_secret

__all__ = [
    "RotationReport",
    "SecretName",
    "check_env",
    "check_stored",
    "decrypt",
    "decrypt_env",
    "encrypt",
    "encrypt_env",
    "names",
    "read_secret",
    "remove_secret",
    "rotate",
    "runtime_keys",
    "set_secret",
]
