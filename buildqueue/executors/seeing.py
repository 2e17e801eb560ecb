"""What does a runtime show of a workload's active instance?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..backends.base import InstanceStatus, WorkloadStatus


def active_of(seen: WorkloadStatus | None) -> InstanceStatus | None:
    """Return the instance that the address leads to."""
    instances = seen.instances if seen else ()
    return next(
        (one for one in instances if seen and one.instance_id == seen.active), None
    )


def is_sealed_off(seen: WorkloadStatus) -> bool:
    """Tell whether it cannot be started: its environment was sealed with another key."""
    active = active_of(seen)
    return active is not None and active.state == "environment_unreadable"
