"""Adds checkpoints, progress, actions and notices, and limits of single jobs."""

from __future__ import annotations

import buildqueue.models.expressions
import buildqueue.models.keys
import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('buildqueue', '0004_readable_values'),
    ]

    operations = [
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('step', models.CharField(db_collation='C', max_length=200)),
                ('lease_id', models.UUIDField(null=True)),
                ('attempt', models.IntegerField()),
                ('token', models.UUIDField(null=True)),
                ('result', models.JSONField(null=True)),
                ('finished_at', models.DateTimeField(db_default=buildqueue.models.expressions.ClockTimestamp())),
            ],
            options={
                'verbose_name': 'checkpoint',
                'verbose_name_plural': 'checkpoints',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='JobAction',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('key', models.CharField(db_collation='C', help_text='Names the effect within its job: proposing it again finds it.', max_length=200)),
                ('title', models.CharField(max_length=200)),
                ('content', models.JSONField()),
                ('content_hash', models.CharField(db_collation='C', max_length=64)),
                ('status', models.CharField(choices=[('awaiting_review', 'awaiting review'), ('approved', 'approved'), ('executing', 'executing'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('outcome_unknown', 'outcome unknown'), ('denied', 'denied'), ('cancelled', 'cancelled'), ('expired', 'expired')], max_length=20)),
                ('needs_review', models.BooleanField(db_default=True)),
                ('asked_at', models.DateTimeField(db_default=buildqueue.models.expressions.ClockTimestamp(), help_text='Since when its time runs.')),
                ('expires_at', models.DateTimeField(null=True)),
                ('lease_id', models.UUIDField(null=True)),
                ('attempt', models.IntegerField(help_text='Of the job, when it was proposed.')),
                ('created_at', models.DateTimeField(db_default=buildqueue.models.expressions.ClockTimestamp())),
                ('decided_at', models.DateTimeField(null=True)),
                ('decided_by', models.CharField(db_default='', max_length=150)),
                ('decided_by_id', models.CharField(db_default='', max_length=100)),
                ('reason', models.TextField(db_default='')),
                ('settled_at', models.DateTimeField(null=True)),
                ('settled_by', models.CharField(db_default='', max_length=150)),
                ('settled_reason', models.TextField(db_default='')),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('receipt', models.JSONField(null=True)),
                ('error_msg', models.TextField(null=True)),
            ],
            options={
                'verbose_name': 'action',
                'verbose_name_plural': 'actions',
                'permissions': [('decide_jobaction', 'Can approve and deny actions'), ('settle_jobaction', 'Can settle actions of unknown outcome')],
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='JobProgress',
            fields=[
                ('job', buildqueue.models.keys.OneOf(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='progress', serialize=False, to='buildqueue.buildjob')),
                ('lease_id', models.UUIDField(null=True)),
                ('state', models.JSONField(db_default=models.Value({}, models.JSONField()))),
                ('evidence', models.JSONField(db_default=models.Value([], models.JSONField()))),
                ('plan', models.JSONField(db_default=models.Value([], models.JSONField()))),
                ('artifacts', models.JSONField(db_default=models.Value([], models.JSONField()))),
                ('done', models.BigIntegerField(null=True)),
                ('total', models.BigIntegerField(null=True)),
                ('message', models.TextField(db_default='')),
                ('waits_for', models.JSONField(help_text='What it waits for: a question, actions or children.', null=True)),
                ('answers', models.JSONField(db_default=models.Value({}, models.JSONField()))),
                ('updated_at', models.DateTimeField(db_default=buildqueue.models.expressions.ClockTimestamp())),
            ],
            options={
                'verbose_name': 'progress',
                'verbose_name_plural': 'progress',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('key', models.CharField(db_collation='C', max_length=300)),
                ('destination', models.CharField(db_collation='C', max_length=100)),
                ('event', models.CharField(max_length=60)),
                ('job_id', models.UUIDField(null=True, verbose_name='job')),
                ('body', models.JSONField()),
                ('status', models.CharField(choices=[('pending', 'pending'), ('sent', 'sent'), ('failed', 'failed')], db_default='pending', max_length=20)),
                ('tries', models.IntegerField(db_default=0)),
                ('due_at', models.DateTimeField(db_default=buildqueue.models.expressions.ClockTimestamp())),
                ('created_at', models.DateTimeField(db_default=buildqueue.models.expressions.ClockTimestamp())),
                ('sent_at', models.DateTimeField(null=True)),
                ('error_msg', models.TextField(db_default='')),
            ],
            options={
                'verbose_name': 'notice',
                'verbose_name_plural': 'notices',
                'default_permissions': ('view', 'change'),
            },
        ),
        migrations.AlterModelOptions(
            name='buildjob',
            options={'default_permissions': ('add', 'change', 'view'), 'permissions': [('retry_buildjob', 'Can retry jobs'), ('cancel_buildjob', 'Can cancel jobs'), ('release_buildjob', 'Can release jobs from their worker'), ('force_fail_buildjob', 'Can declare jobs failed'), ('pause_buildjob', 'Can pause and resume jobs'), ('reschedule_buildjob', 'Can change priority and due time of jobs'), ('answer_buildjob', 'Can answer the questions of jobs'), ('view_payload', 'Can see the payload of jobs'), ('view_log', 'Can see the log of jobs')], 'verbose_name': 'job', 'verbose_name_plural': 'jobs'},
        ),
        migrations.AddField(
            model_name='buildjob',
            name='limits',
            field=models.JSONField(blank=True, help_text='Its own limits, over those of its kind.', null=True),
        ),
        migrations.AddField(
            model_name='jobrun',
            name='error_class',
            field=models.CharField(choices=[('transient', 'transient'), ('permanent', 'permanent'), ('user', "the user's"), ('unknown', 'unknown')], max_length=20, null=True),
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='job',
            field=buildqueue.models.keys.OwnedBy(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='checkpoints', to='buildqueue.buildjob'),
        ),
        migrations.AddField(
            model_name='jobaction',
            name='job',
            field=buildqueue.models.keys.OwnedBy(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='actions', to='buildqueue.buildjob'),
        ),
        migrations.AddConstraint(
            model_name='jobprogress',
            constraint=models.CheckConstraint(condition=models.Q(('done__isnull', True), models.Q(('done__gte', 0), models.Q(('total__isnull', True), ('total__gte', 0), _connector='OR')), _connector='OR'), name='chk_job_progress_count'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['due_at'], name='notices_due'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('status', 'pending'), _negated=True), fields=['created_at'], name='notices_old'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'sent', 'failed'])), name='chk_notices_status'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('sent_at__isnull', False), ('status', 'sent')), models.Q(models.Q(('status', 'sent'), _negated=True), ('sent_at__isnull', True)), _connector='OR'), name='chk_notices_sent'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.UniqueConstraint(fields=('key', 'destination'), name='notices_once'),
        ),
        migrations.AddConstraint(
            model_name='checkpoint',
            constraint=models.UniqueConstraint(fields=('job', 'step'), name='checkpoints_one_per_step'),
        ),
        migrations.AddIndex(
            model_name='jobaction',
            index=models.Index(condition=models.Q(('status__in', ['awaiting_review', 'approved'])), fields=['expires_at'], name='job_actions_to_review'),
        ),
        migrations.AddIndex(
            model_name='jobaction',
            index=models.Index(condition=models.Q(('status', 'executing')), fields=['lease_id'], name='job_actions_executing'),
        ),
        migrations.AddIndex(
            model_name='jobaction',
            index=models.Index(condition=models.Q(('status', 'outcome_unknown')), fields=['job'], name='job_actions_unknown'),
        ),
        migrations.AddConstraint(
            model_name='jobaction',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['awaiting_review', 'approved', 'executing', 'succeeded', 'failed', 'outcome_unknown', 'denied', 'cancelled', 'expired'])), name='chk_job_actions_status'),
        ),
        migrations.AddConstraint(
            model_name='jobaction',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'executing'), _negated=True), models.Q(('lease_id__isnull', False), ('started_at__isnull', False)), _connector='OR'), name='chk_job_actions_executing'),
        ),
        migrations.AddConstraint(
            model_name='jobaction',
            constraint=models.UniqueConstraint(fields=('job', 'key'), name='job_actions_one_per_key'),
        ),
        migrations.AddIndex(
            model_name='jobaction',
            index=models.Index(fields=['-created_at'], name='job_actions_newest'),
        ),
    ]
