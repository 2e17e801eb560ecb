"""Lets the rows of the build system go away with what they belong to, in the database."""

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


class Migration(migrations.Migration):
    """Adds cascades and time stamps."""

    dependencies = [("buildqueue", "0008_build_system")]

    operations = [
        *(foreign_key(*each, "CASCADE") for each in CASCADES),
        *(foreign_key(*each, "SET NULL") for each in SET_NULLS),
        *map(stamped, STAMPED),
    ]
