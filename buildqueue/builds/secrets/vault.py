"""Which secrets has an owner left with us? Named, written once, read only by executors.

Whoever may see the owner's secrets sees names and times. A value leaves by
`read_secret` alone, where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from ...exceptions import Refused, Rejected
from ...models import OwnerSecret
from ...queue import database
from . import keys, variables


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretName:
    """A secret as its owner may see it."""

    name: str
    created_at: datetime
    updated_at: datetime


def set_secret(owner_id: str, name: str, value: str) -> None:
    """Store a secret of the owner, in place of one of that name."""
    _check(name, value)
    made = OwnerSecret(
        owner_id=owner_id, name=name, encrypted_value=keys.encrypt(owner_id, value)
    )
    OwnerSecret.objects.using(database.alias()).bulk_create(
        [made],
        update_conflicts=True,
        unique_fields=["owner_id", "name"],
        update_fields=["encrypted_value", "updated_at"],
    )


def remove_secret(owner_id: str, name: str) -> bool:
    """Forget a secret; false when there is none."""
    removed, _ = _of(owner_id).filter(name=name).delete()
    return removed > 0


def names(owner_id: str) -> list[SecretName]:
    """Return the names of the owner's secrets, in order."""
    found = _of(owner_id).order_by("name")
    shown = found.values_list("name", "created_at", "updated_at")
    return [
        SecretName(name=name, created_at=created, updated_at=updated)
        for name, created, updated in shown
    ]


def read_secret(owner_id: str, name: str) -> str:
    """Return the value; Rejected when there is none or no key of this host reads it."""
    token = _of(owner_id).filter(name=name).values_list("encrypted_value", flat=True)
    if (found := token.first()) is None:
        raise Rejected(
            "secret_missing",
            f"its owner has no secret {name[: variables.LONGEST_NAME]!r}: set it, "
            "then ask again",
        )
    try:
        return keys.decrypt(owner_id, found)
    except Rejected:
        raise keys.unreadable(name) from None


def _of(owner_id: str) -> QuerySet[OwnerSecret]:
    return OwnerSecret.objects.using(database.alias()).filter(owner_id=owner_id)


def _check(name: str, value: str) -> None:
    faults = {
        "name": variables.fault_of_name(name),
        "value": variables.fault_of_value(value) or (None if value else "is empty"),
    }
    found = {field: fault for field, fault in faults.items() if fault}
    if found:
        listed = "; ".join(f"{field}: {why}" for field, why in found.items())
        raise Refused(
            "invalid_secret", f"the secret cannot be kept: {listed}", fields=found
        )
