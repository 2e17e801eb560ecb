"""Who sees to it that followed branches are looked at, and accepted updates are done?

The worker's duties, at each maintenance. Several workers may do the same at the same
time: each row is locked by one of them, and the others pass it by.
"""

from __future__ import annotations

from ..builds import proposals, watchchecks

ROUNDS = 50  # at one maintenance; the rest comes with the next one


def enqueue_due_checks() -> int:
    """Queue a check of every watch that is due; return how many were."""
    count = 0
    for _ in range(ROUNDS):
        found = watchchecks.enqueue_due()
        count += found
        if found < watchchecks.BATCH:
            break
    return count


def repair_accepted() -> int:
    """Queue the updates of accepted proposals that have none; return how many."""
    return proposals.repair_accepted()
