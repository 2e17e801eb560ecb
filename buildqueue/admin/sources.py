"""Stored sources: which archives are kept, and since when nobody asked for them."""

from __future__ import annotations

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_lazy

from ..models import Source
from . import display, moments
from .base import ReadOnlyAdmin


@admin.register(Source)
class SourceAdmin(ReadOnlyAdmin):
    """Sources, those used last first."""

    list_display = ("name", "packed", "used", "created")
    ordering = ("-used_at", "key")
    search_fields = ("key__startswith", "sha256__startswith")
    fields = ("name", "checksum", "packed", "used", "created")
    readonly_fields = fields

    @admin.display(description=gettext_lazy("Source"))
    def name(self, source: Source) -> display.Shown:
        """Its name in the source storage."""
        return display.mono(source.key)

    @admin.display(description=gettext_lazy("Checksum (SHA-256)"))
    def checksum(self, source: Source) -> display.Shown:
        """What it is known by."""
        return display.mono(source.sha256)

    @admin.display(description=gettext_lazy("Size"))
    def packed(self, source: Source) -> str:
        """How large it is, packed."""
        return filesizeformat(source.size)

    @admin.display(description=gettext_lazy("Last used"))
    def used(self, source: Source) -> display.Shown:
        """How long ago somebody stored or fetched it."""
        return moments.ago(source.used_at)

    @admin.display(description=gettext_lazy("Stored"))
    def created(self, source: Source) -> display.Shown:
        """How long ago it was first stored."""
        return moments.ago(source.created_at)
