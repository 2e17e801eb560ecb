"""Which model does the admin's overview hang on? A proxy, so that it has a permission.

It stores nothing: the admin lists it beside the other models, and `view_overview` says
who may see the numbers.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from .jobs import BuildJob


class Overview(BuildJob):
    """The queue at a glance."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = _("overview")
        verbose_name_plural = _("overview")
