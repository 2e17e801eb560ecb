"""Puts into the database what the build system needs of it: cascades, and an order.

Jobs of one target run one after the other by their serial key; a job that another system
has inserted for a target gets that key, too.
"""

from __future__ import annotations

from django.db import migrations

CASCADES = [
    # table, column, referenced table
    ("agentgrant", "agent_id", "agent"),
    ("mcpconnectortool", "connector_id", "mcpconnector"),
    ("sourcewatch", "agent_id", "agent"),
    ("proposal", "agent_id", "agent"),
    ("proposal", "watch_id", "sourcewatch"),
]
SET_NULLS = [("proposal", "job_id", "buildjob")]
STAMPED = ["ownersecret", "sourcewatch"]


def foreign_key(table: str, column: str, target: str, action: str) -> migrations.RunSQL:
    """Return the operation that adds a foreign key with its ON DELETE action."""
    name = f"buildqueue_{table}_{column}_fk"
    return migrations.RunSQL(
        f"ALTER TABLE buildqueue_{table} ADD CONSTRAINT {name} "
        f"FOREIGN KEY ({column}) REFERENCES buildqueue_{target} (id) "
        f"ON DELETE {action} DEFERRABLE INITIALLY DEFERRED",
        f"ALTER TABLE buildqueue_{table} DROP CONSTRAINT {name}",
    )


def stamped(table: str) -> migrations.RunSQL:
    """Return the operation that has the database keep `updated_at`."""
    trigger = f"buildqueue_{table}_updated"
    return migrations.RunSQL(
        f"CREATE TRIGGER {trigger} BEFORE UPDATE ON buildqueue_{table} "
        "FOR EACH ROW EXECUTE FUNCTION buildqueue_set_updated_at()",
        f"DROP TRIGGER {trigger} ON buildqueue_{table}",
    )


KINDS = (
    *("upload", "Upload", "update", "Update", "rollback", "Rollback"),
    *("clone", "Clone", "github_clone", "GithubClone"),
    *("standalone_build", "StandaloneBuild", "mcp_server_upload", "McpServerUpload"),
)
ORDERED = f"""
CREATE FUNCTION buildqueue_order_by_target() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.serial_key := CASE
        WHEN NEW.agent_id IS NOT NULL THEN 'agent:' || NEW.agent_id
        ELSE 'connector:' || NEW.connector_id
    END;
    RETURN NEW;
END
$$;
CREATE TRIGGER buildqueue_job_has_order
BEFORE INSERT ON buildqueue_buildjob
FOR EACH ROW
WHEN (
    NEW.serial_key IS NULL
    AND (NEW.agent_id IS NOT NULL OR NEW.connector_id IS NOT NULL)
    AND NEW.payload->>'kind' IN {KINDS}
)
EXECUTE FUNCTION buildqueue_order_by_target();
"""
UNORDERED = """
DROP TRIGGER buildqueue_job_has_order ON buildqueue_buildjob;
DROP FUNCTION buildqueue_order_by_target();
"""


class Migration(migrations.Migration):
    """Adds cascades, time stamps and an order."""

    dependencies = [("buildqueue", "0008_build_system")]

    operations = [
        *(foreign_key(*each, "CASCADE") for each in CASCADES),
        *(foreign_key(*each, "SET NULL") for each in SET_NULLS),
        *map(stamped, STAMPED),
        migrations.RunSQL(ORDERED, UNORDERED),
    ]
