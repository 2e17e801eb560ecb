"""How does a row hang on its job or target?

By foreign keys whose ON DELETE CASCADE stands in the database itself (the migration
writes it), so that a raw DELETE takes the rows along on every supported Django. The
ORM does not cascade: targets are soft-deleted, and a stray `.delete()` is refused.
"""

from __future__ import annotations

from typing import Any

from django.db import models


class TargetKey(models.ForeignKey[Any, Any]):
    """A nullable key of a job to its target; the index is partial, named by the model."""

    def __init__(self, to: Any, **options: Any) -> None:
        options.setdefault("on_delete", models.DO_NOTHING)
        options.update(null=True, blank=True, db_constraint=False, db_index=False)
        super().__init__(to, **options)


class OwnedBy(models.ForeignKey[Any, Any]):
    """A key to the row it belongs to and goes away with, in the database."""

    def __init__(self, to: Any, **options: Any) -> None:
        options.setdefault("on_delete", models.PROTECT)
        options.update(db_constraint=False)
        super().__init__(to, **options)


class OneOf(models.OneToOneField[Any, Any]):
    """A key that is the row's own: a job has one at most, and takes it along."""

    def __init__(self, to: Any, **options: Any) -> None:
        options.setdefault("on_delete", models.PROTECT)
        options.update(db_constraint=False, primary_key=True)
        super().__init__(to, **options)
