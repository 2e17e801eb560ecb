"""What is told to who lacks a permission of ours? Its name, as the API tells it.

A view demands what it needs; the page that answers has the status 403 and shows nothing
else. What Django's admin refuses by itself, such as a form to change rows, stays its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from .base import ReadOnlyAdmin


class Lacking(PermissionDenied):
    """The user lacks this permission."""

    def __init__(self, permission: str) -> None:
        self.permission = permission
        super().__init__(f"this needs the permission {permission}")


def demand(request: HttpRequest, *permissions: str) -> None:
    """Refuse who lacks one of these permissions."""
    for permission in permissions:
        if not request.user.has_perm(permission):
            raise Lacking(permission)


def naming(view: Callable[..., Any]) -> Callable[..., Any]:
    """Have a view of an admin answer who lacks a permission with its name."""

    @wraps(view)
    def asked(admin: ReadOnlyAdmin, request: HttpRequest, *a: Any, **kw: Any) -> Any:
        try:
            return view(admin, request, *a, **kw)
        except Lacking as lack:
            return _page(admin, request, lack.permission)

    return asked


def _page(admin: ReadOnlyAdmin, request: HttpRequest, permission: str) -> HttpResponse:
    context = {
        **admin.admin_site.each_context(request),
        "title": _("You may not do this"),
        "media": admin.media,
        "permission": permission,
    }
    request.current_app = admin.admin_site.name
    template = "admin/buildqueue/forbidden.html"
    return TemplateResponse(request, template, context, status=403)
