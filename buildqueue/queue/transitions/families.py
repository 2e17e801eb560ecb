"""What does a job's end mean for its parent and its children?

The parent is looked at in the child's final transaction, its row locked after the child's,
never the other way round. Children of a job that did not end done are cancelled after its
commit, one by one, so that no transaction holds a parent and waits for a child; what a
crash leaves in between a duty finds.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from ... import states
from ...exceptions import InvalidTransition
from ...models import BuildJob
from ...states import JobStatus
from .. import database
from ..outcomes import Actor
from .timeline import Change
from .waits import FAILED

BY_FAMILY = Actor(label="parent job")
AT_ONCE = 100  # children cancelled by who ended the parent; duties do the rest


def open_children_of_ended(limit: int) -> list[UUID]:
    """Return open jobs whose parent did not end done."""
    jobs = BuildJob.objects.using(database.alias())
    orphans = jobs.filter(
        parent__isnull=False, completed_at__isnull=True, parent__status__in=FAILED
    )
    return list(orphans.order_by("parent_id").values_list("pk", flat=True)[:limit])


def cancel_children_after_commit(job: BuildJob) -> None:
    """Have the children go the way of their parent, once it is committed."""
    jobs = BuildJob.objects.using(database.alias())
    if jobs.filter(parent_id=job.pk, completed_at__isnull=True).exists():

        def then() -> None:  # no partial: Django logs by its name what it raises
            _cancel_children(job.pk)

        transaction.on_commit(then, using=database.alias(), robust=True)


def _cancel_children(parent_id: UUID) -> None:
    jobs = BuildJob.objects.using(database.alias())
    left = jobs.filter(parent_id=parent_id, completed_at__isnull=True).order_by("seq")
    for child in left.values_list("pk", flat=True)[:AT_ONCE]:
        cancel_child(child)


def cancel_child(job_id: UUID) -> bool:
    """Cancel a job because its parent has ended; false when that is no longer so."""
    from .changing import apply  # the other way round it is called by apply

    why = "its parent job did not end done"
    change = Change(
        transition=states.CANCEL,
        target=JobStatus.CANCELLED,
        actor=BY_FAMILY,
        reason=why,
        values={"error_code": "cancelled", "error_msg": why},
    )
    parents = BuildJob.objects.using(database.alias()).filter(status__in=FAILED)
    # Whoever retried the parent meanwhile wants its children.
    still = Q(Exists(parents.filter(pk=OuterRef("parent_id"))))
    try:
        apply(job_id, change, guard=still)
    except InvalidTransition:
        return False
    return True


def not_done_below(job_id: UUID) -> list[UUID]:
    """Return what did not end done below a job that did not either, the deepest first."""
    jobs = BuildJob.objects.using(database.alias()).filter(status__in=FAILED)
    # In order, and each once: raw SQL can make a circle.
    found = dict.fromkeys([job_id])
    level = [job_id]
    while level:
        below = jobs.filter(parent_id__in=level, parent__status__in=FAILED)
        ids = below.order_by("-seq").values_list("pk", flat=True)
        level = [pk for pk in ids if pk not in found]
        found |= dict.fromkeys(level)
    return list(found)[:0:-1]
