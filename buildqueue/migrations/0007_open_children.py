"""Finds the open children of a job fast, without stopping anybody's writes meanwhile."""

from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds an index concurrently: outside of a transaction."""

    atomic = False

    dependencies = [("buildqueue", "0006_fences")]

    operations = [
        AddIndexConcurrently(
            model_name="buildjob",
            index=models.Index(
                condition=models.Q(
                    ("completed_at__isnull", True), ("parent__isnull", False)
                ),
                fields=["parent"],
                name="build_jobs_open_children",
            ),
        ),
    ]
