"""A durable build and job queue on PostgreSQL, the Django admin its control room."""

from __future__ import annotations

__version__ = "0.1.0"
