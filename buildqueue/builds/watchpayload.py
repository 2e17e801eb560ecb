"""What does the job carry that looks at a followed branch or tag? Only which one."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from .payloads import Payload


class WatchCheck(Payload):
    """See where a followed branch or tag is, and act when it has moved."""

    kind: Literal["watch_check"] = "watch_check"
    watch_id: UUID
