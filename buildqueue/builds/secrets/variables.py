"""Which variables may an environment have, and how are they stored?

Names can be seen by everybody who sees the agent; values are stored as ciphertext and
read where the process is started. One value that cannot be read refuses all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...exceptions import Refused, Rejected
from . import keys

MOST_NAMES = 100
LONGEST_NAME = 128
MOST_VALUE_BYTES = 32 * 1024
# A process that is given much more cannot be started.
MOST_BYTES = 512 * 1024

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The runtime's own, and what would change how a program is loaded.
_RESERVED = re.compile(r"HOST|PORT|PATH|PYTHON.*|LD_.*")


def check_env(env: Mapping[str, str]) -> None:
    """Refuse an environment that no process could be given; `fields` says why, each."""
    faults = {
        _shown(name): fault
        for name, value in env.items()
        if (fault := _fault(name, value))
    }
    if len(env) > MOST_NAMES:
        faults["env"] = f"at most {MOST_NAMES} variables"
    elif not faults and sum(map(_size, env.items())) > MOST_BYTES:
        faults["env"] = f"at most {MOST_BYTES} bytes together"
    if faults:
        raise _refused(faults)


def check_stored(stored: Mapping[str, str]) -> None:
    """Refuse ciphertexts that are too many, or too long, together."""
    plain = sum(len(name) + len(token) * 3 // 4 for name, token in stored.items())
    if len(stored) > MOST_NAMES:
        raise _refused({"env": f"at most {MOST_NAMES} variables"})
    if plain > MOST_BYTES:
        raise _refused({"env": f"at most {MOST_BYTES} bytes together"})


def encrypt_env(owner_id: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return name to ciphertext."""
    return {name: keys.encrypt(owner_id, value) for name, value in env.items()}


def decrypt_env(owner_id: str, stored: Mapping[str, str]) -> dict[str, str]:
    """Return name to value; Rejected, naming the variable, when one cannot be read."""
    return {name: _decrypted(owner_id, name, token) for name, token in stored.items()}


def fault_of_name(name: object) -> str | None:
    """Return what is wrong with the name of a variable or a secret."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return "a name is of letters, digits and _, and begins with no digit"
    if len(name) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} characters"
    return None


def is_reserved(name: str) -> bool:
    """Tell whether the runtime sets it, or it would change how programs are loaded."""
    return _RESERVED.fullmatch(name) is not None


def fault_of_value(value: object) -> str | None:
    """Return what is wrong with a value, without the value."""
    if not isinstance(value, str):
        return "must be a text"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "must be a text that UTF-8 can hold"
    if "\0" in value:
        return "must not contain the character NUL"
    if size > MOST_VALUE_BYTES:
        return f"at most {MOST_VALUE_BYTES} bytes"
    return None


def _fault(name: str, value: object) -> str | None:
    if fault := fault_of_name(name):
        return fault
    if is_reserved(name):
        return "reserved: the runtime sets it, or it changes how programs are loaded"
    return fault_of_value(value)


def _decrypted(owner_id: str, name: str, token: object) -> str:
    if not isinstance(token, str):
        raise keys.unreadable(name)
    try:
        return keys.decrypt(owner_id, token)
    except Rejected:
        raise keys.unreadable(name) from None


def _size(variable: tuple[str, str]) -> int:
    name, value = variable
    return len(name) + len(value.encode())


def _shown(name: object) -> str:
    return ascii(name)[1:-1][:LONGEST_NAME] if isinstance(name, str) else "env"


def _refused(faults: Mapping[str, str]) -> Refused:
    listed = "; ".join(f"{name or repr(name)}: {why}" for name, why in faults.items())
    return Refused(
        "invalid_environment",
        f"the environment cannot be used: {listed}",
        fields=faults,
    )
