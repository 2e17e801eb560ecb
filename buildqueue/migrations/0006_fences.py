"""Has the database itself refuse what a run writes that has lost its lease.

Checkpoints, progress and actions carry the writer's lease; at the commit a deferred
trigger looks whether it is still the job's. Until then nothing touches the job's row, so
a long transaction of a handler delays neither a renewal nor a cancel. The content of an
action is what was reviewed: it never changes.
"""

from __future__ import annotations

from django.db import migrations

OWNED = ["checkpoint", "jobprogress", "jobaction"]


def foreign_key(table: str) -> migrations.RunSQL:
    """Return the operation that has the rows go away with their job."""
    name = f"buildqueue_{table}_job_id_fk"
    return migrations.RunSQL(
        f"ALTER TABLE buildqueue_{table} ADD CONSTRAINT {name} "
        f"FOREIGN KEY (job_id) REFERENCES buildqueue_buildjob (id) "
        f"ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED",
        f"ALTER TABLE buildqueue_{table} DROP CONSTRAINT {name}",
    )


CHECK_FENCE = """
CREATE FUNCTION buildqueue_check_fence() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- The share lock is held from here to the end of the commit: whoever takes the lease
    -- comes before it, and this is refused, or after it.
    PERFORM 1 FROM buildqueue_buildjob
    WHERE id = NEW.job_id AND lease_id = NEW.lease_id
      AND lease_until > clock_timestamp()
    FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease % of job % is no longer held', NEW.lease_id, NEW.job_id
            USING ERRCODE = 'BQ001', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
""" + "".join(
    f"CREATE CONSTRAINT TRIGGER buildqueue_{table}_fence "
    f"AFTER INSERT OR UPDATE ON buildqueue_{table} "
    f"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.lease_id IS NOT NULL) "
    f"EXECUTE FUNCTION buildqueue_check_fence();\n"
    for table in OWNED
)
NO_FENCE = (
    "".join(
        f"DROP TRIGGER buildqueue_{table}_fence ON buildqueue_{table};\n"
        for table in OWNED
    )
    + "DROP FUNCTION buildqueue_check_fence();"
)

CONTENT_IS_IMMUTABLE = """
CREATE FUNCTION buildqueue_refuse_action_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF pg_trigger_depth() > 1
           OR current_setting('buildqueue.retention', true) = 'on' THEN
            RETURN OLD;
        END IF;
    ELSIF (NEW.job_id, NEW.key, NEW.title, NEW.content, NEW.content_hash, NEW.attempt,
           NEW.created_at)
          IS NOT DISTINCT FROM
          (OLD.job_id, OLD.key, OLD.title, OLD.content, OLD.content_hash, OLD.attempt,
           OLD.created_at) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'what an action was reviewed with never changes: % refused', TG_OP
        USING ERRCODE = 'restrict_violation', TABLE = TG_TABLE_NAME;
END
$$;
CREATE TRIGGER buildqueue_action_is_immutable
BEFORE UPDATE OR DELETE ON buildqueue_jobaction
FOR EACH ROW EXECUTE FUNCTION buildqueue_refuse_action_change();
"""
CONTENT_IS_MUTABLE = """
DROP TRIGGER buildqueue_action_is_immutable ON buildqueue_jobaction;
DROP FUNCTION buildqueue_refuse_action_change();
"""


class Migration(migrations.Migration):
    """Adds cascades, fences and what keeps reviewed content as it was."""

    dependencies = [("buildqueue", "0005_execution_guarantees")]

    operations = [
        *(foreign_key(table) for table in OWNED),
        migrations.RunSQL(CHECK_FENCE, NO_FENCE),
        migrations.RunSQL(CONTENT_IS_IMMUTABLE, CONTENT_IS_MUTABLE),
    ]
