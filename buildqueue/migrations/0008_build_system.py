"""Adds what the build system keeps: wishes, secrets, sources, tools, watches."""

from __future__ import annotations

import buildqueue.models.arrays
import buildqueue.models.keys
import django.contrib.postgres.functions
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('buildqueue', '0007_open_children'),
    ]

    operations = [
        migrations.CreateModel(
            name='AgentGrant',
            fields=[
                ('id', models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, primary_key=True, serialize=False)),
                ('grant_type', models.CharField(choices=[('user', 'a user'), ('public', 'everybody')], max_length=10)),
                ('grantee_id', models.CharField(db_collation='C', help_text="A user's key; * for everybody.", max_length=100)),
                ('can_manage', models.BooleanField(db_default=False, help_text='May update, roll back, stop and start it, too.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'verbose_name': 'grant',
                'verbose_name_plural': 'grants',
            },
        ),
        migrations.CreateModel(
            name='McpConnectorTool',
            fields=[
                ('id', models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, primary_key=True, serialize=False)),
                ('name', models.CharField(db_collation='C', max_length=255)),
                ('title', models.TextField(blank=True, null=True)),
                ('description', models.TextField(blank=True, null=True)),
                ('input_schema', models.JSONField(db_default=models.Value({}, models.JSONField()))),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'verbose_name': 'tool',
                'verbose_name_plural': 'tools',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='OwnerSecret',
            fields=[
                ('id', models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, primary_key=True, serialize=False)),
                ('owner_id', models.CharField(db_collation='C', max_length=100, verbose_name='owner')),
                ('name', models.CharField(db_collation='C', max_length=128)),
                ('encrypted_value', models.TextField(help_text='Ciphertext, never clear text.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'verbose_name': 'secret',
                'verbose_name_plural': 'secrets',
            },
        ),
        migrations.CreateModel(
            name='Proposal',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('commit_hash', models.CharField(max_length=64)),
                ('summary', models.TextField(db_default='')),
                ('status', models.CharField(choices=[('open', 'open'), ('accepted', 'accepted'), ('dismissed', 'dismissed'), ('superseded', 'superseded')], db_default='open', max_length=10)),
                ('decided_by', models.CharField(blank=True, max_length=200, null=True)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'verbose_name': 'proposal',
                'verbose_name_plural': 'proposals',
                'permissions': [('decide_proposal', 'Can accept and dismiss proposals')],
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Source',
            fields=[
                ('key', models.CharField(db_collation='C', max_length=255, primary_key=True, serialize=False)),
                ('sha256', models.CharField(max_length=64)),
                ('size', models.BigIntegerField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('used_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When somebody last stored or fetched it.')),
            ],
            options={
                'verbose_name': 'source',
                'verbose_name_plural': 'sources',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='SourceWatch',
            fields=[
                ('id', models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, primary_key=True, serialize=False)),
                ('git_url', models.TextField()),
                ('ref', models.CharField(help_text='The branch or tag that is followed.', max_length=255)),
                ('secret_name', models.CharField(blank=True, help_text="The owner's secret that holds the token of the repository.", max_length=128, null=True)),
                ('mode', models.CharField(choices=[('update', 'update at once'), ('propose', 'propose an update')], db_default='propose', max_length=10)),
                ('bump', models.CharField(choices=[('patch', 'patch'), ('minor', 'minor'), ('major', 'major')], db_default='patch', max_length=10)),
                ('interval_minutes', models.IntegerField(db_default=10)),
                ('status', models.CharField(choices=[('active', 'active'), ('paused', 'paused')], db_default='active', max_length=10)),
                ('pause_reason', models.TextField(blank=True, null=True)),
                ('failures', models.IntegerField(db_default=0, help_text='In a row; the fifth pauses it.')),
                ('last_error', models.TextField(blank=True, null=True)),
                ('last_commit', models.CharField(blank=True, max_length=64, null=True)),
                ('checked_at', models.DateTimeField(blank=True, null=True)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('created_by', models.CharField(db_collation='C', db_default='', max_length=100)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'verbose_name': 'watch',
                'verbose_name_plural': 'watches',
            },
        ),
        migrations.AddField(
            model_name='agent',
            name='ports',
            field=buildqueue.models.arrays.Array(base_field=models.IntegerField(), blank=True, db_default=models.Value([]), help_text='Asked for by its owner; none: as its source says.', size=None),
        ),
        migrations.AddField(
            model_name='agent',
            name='replicas',
            field=models.SmallIntegerField(db_default=1),
        ),
        migrations.AddField(
            model_name='agent',
            name='resources',
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), help_text='Limits of each instance: memory_mb, cpus, processes.'),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='exit_code',
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='hint',
            field=models.TextField(blank=True, help_text='What would help.', null=True),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='host',
            field=models.CharField(blank=True, max_length=100, null=True),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='secrets_env',
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), help_text='Given with this build: name to ciphertext, never clear text.'),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='source_ref',
            field=models.CharField(blank=True, help_text='The branch or tag asked for.', max_length=255, null=True),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='source_size',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='source_secret',
            field=models.CharField(blank=True, help_text="The owner's secret that holds the repository's token.", max_length=128, null=True),
        ),
        migrations.AddField(
            model_name='agentbuild',
            name='source_token',
            field=models.TextField(blank=True, help_text='Ciphertext, never clear text.', null=True),
        ),
        migrations.AddField(
            model_name='agentdeployment',
            name='spec_env',
            field=buildqueue.models.arrays.Array(base_field=models.CharField(max_length=128), blank=True, db_default=models.Value([]), help_text='The names of its environment; values stand nowhere.', size=None),
        ),
        migrations.AddField(
            model_name='agentdeployment',
            name='spec_resources',
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField())),
        ),
        migrations.AddField(
            model_name='agentdeployment',
            name='writable',
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name='agentdeployment',
            name='writable_path',
            field=models.CharField(blank=True, max_length=255, null=True),
        ),
        migrations.AddField(
            model_name='logchunk',
            name='step',
            field=models.CharField(blank=True, help_text='The step that printed it.', max_length=200, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnector',
            name='crash_reason',
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnector',
            name='crashed_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnector',
            name='host',
            field=models.CharField(blank=True, help_text='The machine it runs on, where the runtime is bound to one.', max_length=100, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnector',
            name='instance_id',
            field=models.UUIDField(blank=True, help_text='The instance that its address leads to.', null=True),
        ),
        migrations.AddField(
            model_name='mcpconnector',
            name='last_logs',
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnector',
            name='restart_count',
            field=models.IntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name='mcpconnector',
            name='runtime',
            field=models.CharField(blank=True, max_length=50, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='commit_hash',
            field=models.CharField(blank=True, max_length=64, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='exit_code',
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='hint',
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='host',
            field=models.CharField(blank=True, max_length=100, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='logs',
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='secrets_env',
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), help_text='Given with this build: name to ciphertext, never clear text.'),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='source_ref',
            field=models.CharField(blank=True, max_length=255, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='source_sha256',
            field=models.CharField(blank=True, max_length=64, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='source_size',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='source_secret',
            field=models.CharField(blank=True, max_length=128, null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='source_token',
            field=models.TextField(blank=True, help_text='Ciphertext, never clear text.', null=True),
        ),
        migrations.AddField(
            model_name='mcpconnectorbuild',
            name='triggered_by',
            field=models.CharField(blank=True, db_collation='C', max_length=100, null=True),
        ),
        migrations.AddIndex(
            model_name='agentbuild',
            index=models.Index(condition=models.Q(('source_key__isnull', False)), fields=['source_key'], name='agent_builds_source'),
        ),
        migrations.AddIndex(
            model_name='mcpconnectorbuild',
            index=models.Index(condition=models.Q(('source_key__isnull', False)), fields=['source_key'], name='connector_builds_source'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('replicas__range', (1, 16))), name='chk_agents_replicas'),
        ),
        migrations.AddField(
            model_name='agentgrant',
            name='agent',
            field=buildqueue.models.keys.OwnedBy(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='grants', to='buildqueue.agent'),
        ),
        migrations.AddField(
            model_name='mcpconnectortool',
            name='connector',
            field=buildqueue.models.keys.OwnedBy(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='tools', to='buildqueue.mcpconnector'),
        ),
        migrations.AddConstraint(
            model_name='ownersecret',
            constraint=models.UniqueConstraint(fields=('owner_id', 'name'), name='owner_secrets_uniq'),
        ),
        migrations.AddConstraint(
            model_name='ownersecret',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[A-Za-z_][A-Za-z0-9_]*$')), name='chk_owner_secrets_name'),
        ),
        migrations.AddField(
            model_name='proposal',
            name='agent',
            field=buildqueue.models.keys.OwnedBy(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='proposals', to='buildqueue.agent'),
        ),
        migrations.AddField(
            model_name='proposal',
            name='job',
            field=models.ForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='proposals', to='buildqueue.buildjob'),
        ),
        migrations.AddIndex(
            model_name='source',
            index=models.Index(fields=['used_at'], name='sources_used'),
        ),
        migrations.AddConstraint(
            model_name='source',
            constraint=models.CheckConstraint(condition=models.Q(('size__gte', 0)), name='chk_sources_size'),
        ),
        migrations.AddConstraint(
            model_name='source',
            constraint=models.CheckConstraint(condition=models.Q(('sha256__regex', '^[0-9a-f]{64}$')), name='chk_sources_sha256'),
        ),
        migrations.AddField(
            model_name='sourcewatch',
            name='agent',
            field=buildqueue.models.keys.OwnedBy(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='watches', to='buildqueue.agent'),
        ),
        migrations.AddField(
            model_name='proposal',
            name='watch',
            field=buildqueue.models.keys.OwnedBy(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='proposals', to='buildqueue.sourcewatch'),
        ),
        migrations.AddIndex(
            model_name='agentgrant',
            index=models.Index(fields=['grantee_id'], name='agent_grants_grantee'),
        ),
        migrations.AddConstraint(
            model_name='agentgrant',
            constraint=models.UniqueConstraint(fields=('agent', 'grant_type', 'grantee_id'), name='agent_grants_uniq'),
        ),
        migrations.AddConstraint(
            model_name='agentgrant',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('can_manage', False), ('grant_type', 'public'), ('grantee_id', '*')), models.Q(('grant_type', 'user'), models.Q(('grantee_id__in', ['', '*']), _negated=True)), _connector='OR'), name='chk_agent_grants_public'),
        ),
        migrations.AddConstraint(
            model_name='mcpconnectortool',
            constraint=models.UniqueConstraint(fields=('connector', 'name'), name='connector_tools_uniq'),
        ),
        migrations.AddIndex(
            model_name='sourcewatch',
            index=models.Index(condition=models.Q(('status', 'active')), fields=['due_at'], name='source_watches_due'),
        ),
        migrations.AddConstraint(
            model_name='sourcewatch',
            constraint=models.UniqueConstraint(fields=('agent', 'git_url', 'ref'), name='source_watches_uniq'),
        ),
        migrations.AddConstraint(
            model_name='sourcewatch',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['active', 'paused'])), name='chk_source_watches_status'),
        ),
        migrations.AddConstraint(
            model_name='sourcewatch',
            constraint=models.CheckConstraint(condition=models.Q(('mode__in', ['update', 'propose'])), name='chk_source_watches_mode'),
        ),
        migrations.AddConstraint(
            model_name='sourcewatch',
            constraint=models.CheckConstraint(condition=models.Q(('bump__in', ['patch', 'minor', 'major'])), name='chk_source_watches_bump'),
        ),
        migrations.AddConstraint(
            model_name='sourcewatch',
            constraint=models.CheckConstraint(condition=models.Q(('interval_minutes__range', (1, 10080))), name='chk_source_watches_interval'),
        ),
        migrations.AddConstraint(
            model_name='sourcewatch',
            constraint=models.CheckConstraint(condition=models.Q(('failures__gte', 0)), name='chk_source_watches_failures'),
        ),
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(condition=models.Q(('status', 'open')), fields=['agent', '-created_at'], name='proposals_open'),
        ),
        migrations.AddConstraint(
            model_name='proposal',
            constraint=models.UniqueConstraint(fields=('watch', 'commit_hash'), name='proposals_one_per_commit'),
        ),
        migrations.AddConstraint(
            model_name='proposal',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['open', 'accepted', 'dismissed', 'superseded'])), name='chk_proposals_status'),
        ),
        migrations.AddConstraint(
            model_name='proposal',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', True), ('status', 'open')), models.Q(models.Q(('status', 'open'), _negated=True), ('decided_at__isnull', False)), _connector='OR'), name='chk_proposals_decided'),
        ),
    ]
