"""Where are the pages, and what do they say?"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.http import HttpResponseBase

JOBS = "/admin/buildqueue/buildjob/"
OVERVIEW = "/admin/buildqueue/overview/"


def page_of(row: Any) -> str:
    """Return the address of a row's page."""
    return f"/admin/buildqueue/{row._meta.model_name}/{row.pk}/change/"


def act_url(name: str, model: str = "buildjob") -> str:
    """Return the address of an act's confirmation."""
    return f"/admin/buildqueue/{model}/acts/{name}/"


def text_of(response: HttpResponseBase) -> str:
    """Return a page's words, tags and runs of space removed."""
    html = response.content.decode()  # type: ignore[attr-defined]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def html_of(response: HttpResponseBase) -> str:
    """Return a page's source."""
    return response.content.decode()  # type: ignore[attr-defined, no-any-return]
