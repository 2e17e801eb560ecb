"""Puts into the database what the ORM cannot say: cascades, triggers, storage.

Every part is reversible. A cascade here means that a raw DELETE of an agent takes its
jobs, runs and events along; late writes of a running job then hit no row.
"""

from __future__ import annotations

from django.db import migrations

CASCADES = [
    # table, column, referenced table
    ("buildjob", "agent_id", "agent"),
    ("buildjob", "connector_id", "mcpconnector"),
    ("jobrun", "job_id", "buildjob"),
    ("jobevent", "job_id", "buildjob"),
    ("agentbuild", "agent_id", "agent"),
    ("agentversion", "agent_id", "agent"),
    ("agentdeployment", "agent_id", "agent"),
    ("mcpconnectorbuild", "connector_id", "mcpconnector"),
]
SET_NULLS = [
    ("buildjob", "parent_id", "buildjob"),
    ("agentbuild", "job_id", "buildjob"),
    ("agentbuild", "version_id", "agentversion"),
    ("agentversion", "build_id", "agentbuild"),
    ("mcpconnectorbuild", "job_id", "buildjob"),
]
STAMPED = ["agent", "agentbuild", "agentdeployment", "mcpconnector", "mcpconnectorbuild"]


def foreign_key(table: str, column: str, target: str, action: str) -> migrations.RunSQL:
    """Return the operation that adds a foreign key with its ON DELETE action."""
    name = f"buildqueue_{table}_{column}_fk"
    return migrations.RunSQL(
        f"ALTER TABLE buildqueue_{table} ADD CONSTRAINT {name} "
        f"FOREIGN KEY ({column}) REFERENCES buildqueue_{target} (id) "
        f"ON DELETE {action} DEFERRABLE INITIALLY DEFERRED",
        f"ALTER TABLE buildqueue_{table} DROP CONSTRAINT {name}",
    )


EVENTS_ARE_IMMUTABLE = """
CREATE FUNCTION buildqueue_refuse_event_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- A cascade from the job runs inside its trigger; retention says so by a setting
    -- that ends with its transaction.
    IF TG_OP = 'DELETE' AND (
        pg_trigger_depth() > 1
        OR current_setting('buildqueue.retention', true) = 'on'
    ) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'events of a job are append-only: % refused', TG_OP
        USING ERRCODE = 'restrict_violation', TABLE = TG_TABLE_NAME;
END
$$;
CREATE TRIGGER buildqueue_event_is_immutable
BEFORE UPDATE OR DELETE ON buildqueue_jobevent
FOR EACH ROW EXECUTE FUNCTION buildqueue_refuse_event_change();
"""
EVENTS_ARE_MUTABLE = """
DROP TRIGGER buildqueue_event_is_immutable ON buildqueue_jobevent;
DROP FUNCTION buildqueue_refuse_event_change();
"""

STAMP = """
CREATE FUNCTION buildqueue_set_updated_at() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END
$$;
""" + "".join(
    f"CREATE TRIGGER buildqueue_{table}_updated BEFORE UPDATE ON buildqueue_{table} "
    f"FOR EACH ROW EXECUTE FUNCTION buildqueue_set_updated_at();\n"
    for table in STAMPED
)
UNSTAMP = (
    "".join(
        f"DROP TRIGGER buildqueue_{table}_updated ON buildqueue_{table};\n"
        for table in STAMPED
    )
    + "DROP FUNCTION buildqueue_set_updated_at();"
)

# Rows of a queue are updated a few times and then never again: room for the updates
# on the page, and vacuum long before the default fifth of the table is dead.
STORAGE = """
ALTER TABLE buildqueue_buildjob SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE buildqueue_jobrun SET (fillfactor = 80);
DO $$
BEGIN
    ALTER TABLE buildqueue_logchunk ALTER COLUMN text SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    NULL;  -- a server built without lz4 compresses its own way
END
$$;
"""
DEFAULT_STORAGE = """
ALTER TABLE buildqueue_buildjob RESET (
    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
    autovacuum_analyze_scale_factor, autovacuum_vacuum_cost_delay
);
ALTER TABLE buildqueue_jobrun RESET (fillfactor);
ALTER TABLE buildqueue_logchunk ALTER COLUMN text SET COMPRESSION default;
"""


class Migration(migrations.Migration):
    """Adds cascades, triggers and storage parameters."""

    dependencies = [("buildqueue", "0001_initial")]

    operations = [
        *(foreign_key(*key, "CASCADE") for key in CASCADES),
        *(foreign_key(*key, "SET NULL") for key in SET_NULLS),
        migrations.RunSQL(EVENTS_ARE_IMMUTABLE, EVENTS_ARE_MUTABLE),
        migrations.RunSQL(STAMP, UNSTAMP),
        migrations.RunSQL(STORAGE, DEFAULT_STORAGE),
    ]
