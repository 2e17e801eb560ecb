"""How does a receiver know that a webhook is ours, whole and fresh?

By three headers, as Standard Webhooks has them: the notice's id, the moment of this try,
and an HMAC over both and the body. Pure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from uuid import UUID

from ...destinations import key_of


def headers(
    notice_id: UUID, moment: int, content: bytes, secret: str
) -> dict[str, str]:
    """Return the headers of one try; the id is the same at each, the moment is not."""
    signed = f"{notice_id}.{moment}.".encode() + content
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": str(notice_id),
        "webhook-timestamp": str(moment),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
