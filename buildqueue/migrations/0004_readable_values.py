"""Refuses counts and moments that the statement which reads them could not take."""

from __future__ import annotations

import datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('buildqueue', '0003_overview'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='buildjob',
            name='chk_build_jobs_counts',
        ),
        migrations.AddConstraint(
            model_name='buildjob',
            constraint=models.CheckConstraint(condition=models.Q(('attempt__range', (0, 1000000)), ('crashes__range', (0, 1000000)), ('failures__range', (0, 1000000)), ('max_attempts__range', (1, 1000000))), name='chk_build_jobs_counts'),
        ),
        migrations.AddConstraint(
            model_name='buildjob',
            constraint=models.CheckConstraint(condition=models.Q(('completed_at__range', (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), datetime.datetime(9000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), ('created_at__range', (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), datetime.datetime(9000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), ('due_at__range', (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), datetime.datetime(9000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), ('first_started_at__range', (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), datetime.datetime(9000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), ('lease_until__range', (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), datetime.datetime(9000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), ('picked_at__range', (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), datetime.datetime(9000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)))), name='chk_build_jobs_moments'),
        ),
    ]
