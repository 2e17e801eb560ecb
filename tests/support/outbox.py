"""How does a test get a notice that is due, and somebody who wants it?"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.test import override_settings
from django.utils import timezone

from buildqueue.models import Notice

BODY = {"type": "job.done", "timestamp": "2030-01-01T00:00:00+00:00", "data": {}}


def wanting(*destinations: dict[str, Any]) -> AbstractContextManager[Any]:
    """Have these destinations, and no others, for as long as the block lasts."""
    return override_settings(BUILDQUEUE={"NOTICES": list(destinations)})


def make_notice(**values: Any) -> Notice:
    """Make a notice to `ops` that is due."""
    given = {"key": f"k{uuid4()}", "destination": "ops", "event": "job.done"}
    notice = Notice.objects.create(**(given | {"body": BODY} | values))
    notice.refresh_from_db()
    return notice


def make_due(notice: Notice) -> None:
    """Let the time pass until the notice is due again."""
    moment = timezone.now() - timedelta(seconds=1)
    Notice.objects.filter(pk=notice.pk).update(due_at=moment)
