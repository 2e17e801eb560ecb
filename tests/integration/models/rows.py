"""What does a legal row of each table look like, in raw SQL, and what spoils it?

`LEGAL` holds the least that every table takes; `ILLEGAL` names for each constraint what
to change so that it, and no other, refuses the row. `{agent}` and its like stand for the
ids that `References` made.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connection

Row = dict[str, Any]
ALWAYS = "2026-01-01T00:00:00Z"
A, B = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))

LEGAL: dict[str, Row] = {
    "agent": {"name": "shop", "owner_id": "1"},
    "agentbuild": {"agent_id": "{agent}", "version_tag": "1.0.0"},
    "agentversion": {"agent_id": "{agent}", "version": "1.0.0"},
    "agentdeployment": {"agent_id": "{agent}", "build_id": "{build}"},
    "mcpconnector": {
        "name": "tools",
        "owner_id": "1",
        "provider_type": "mcp_server",
        "url": "http://tools",
    },
    "mcpconnectorbuild": {
        "connector_id": "{connector}",
        "owner_id": "1",
        "version_tag": "1.0.0",
    },
    "buildjob": {"owner_id": "1", "payload": {"kind": "probe"}},
    "jobrun": {
        "id": A,
        "job_id": "{job}",
        "attempt": 1,
        "worker": A,
        "slot": A,
    },
    "jobevent": {"job_id": "{job}", "kind": "note"},
    "logchunk": {
        "job_id": "{job}",
        "run_id": A,
        "attempt": 1,
        "seq": 1,
        "stream": "stdout",
        "text": "hello",
    },
    "worker": {
        "id": A,
        "host": "here",
        "pid": 1,
        "queues": [],
        "capabilities": [],
        "slots": 1,
        "version": "1",
    },
    "checkpoint": {"job_id": "{job}", "step": "charge", "attempt": 1},
    "jobprogress": {"job_id": "{job}"},
    "jobaction": {
        "id": A,
        "job_id": "{job}",
        "key": "mail",
        "title": "Mail",
        "content": {},
        "content_hash": "0" * 64,
        "status": "awaiting_review",
        "attempt": 1,
    },
    "notice": {
        "id": A,
        "key": "job.done:1",
        "destination": "shop",
        "event": "job.done",
        "body": {},
    },
    "agentgrant": {"agent_id": "{agent}", "grant_type": "user", "grantee_id": "2"},
    "mcpconnectortool": {"connector_id": "{connector}", "name": "search"},
    "ownersecret": {"owner_id": "1", "name": "TOKEN", "encrypted_value": "x"},
    "source": {"key": "sources/00/0.zip", "sha256": "0" * 64, "size": 1},
    "sourcewatch": {
        "agent_id": "{agent}",
        "git_url": "https://example.org/a",
        "ref": "main",
    },
    "proposal": {
        "id": A,
        "agent_id": "{agent}",
        "watch_id": "{watch}",
        "commit_hash": "0" * 40,
    },
}
RUNNING: Row = {
    "status": "in_progress",
    "lease_id": A,
    "lease_until": ALWAYS,
    "picked_at": ALWAYS,
}


@dataclass(frozen=True, slots=True)
class Illegal:
    """A change to a legal row, and the constraint that must refuse it."""

    constraint: str
    table: str
    changes: Row
    after: tuple[Row, ...] = ()  # rows of the same table that stand there already

    def __str__(self) -> str:
        told = ",".join(f"{k}={v}" for k, v in self.changes.items())
        return f"{self.constraint}:{told}"[:90]


def _statuses(constraint: str, table: str, column: str = "status") -> Illegal:
    return Illegal(constraint, table, {column: "made_up"})


ILLEGAL: list[Illegal] = [
    # build_jobs
    _statuses("chk_build_jobs_status", "buildjob"),
    Illegal("chk_build_jobs_one_target", "buildjob", {"payload": {"kind": "upload"}}),
    Illegal("chk_build_jobs_one_target", "buildjob", {"payload": {"kind": "Upload"}}),
    Illegal(
        "chk_build_jobs_one_target",
        "buildjob",
        {"payload": {"kind": "McpServerUpload"}},
    ),
    Illegal(
        "chk_build_jobs_one_target",
        "buildjob",
        {"agent_id": "{agent}", "connector_id": "{connector}"},
    ),
    Illegal(
        "chk_build_jobs_one_target",
        "buildjob",
        {
            "payload": {"kind": "Rollback"},
            "agent_id": "{agent}",
            "connector_id": "{connector}",
        },
    ),
    Illegal("chk_build_jobs_completed", "buildjob", {"status": "done"}),
    Illegal("chk_build_jobs_completed", "buildjob", {"status": "failed"}),
    Illegal("chk_build_jobs_completed", "buildjob", {"status": "cancelled"}),
    Illegal("chk_build_jobs_completed", "buildjob", {"completed_at": ALWAYS}),
    Illegal("chk_build_jobs_lease", "buildjob", RUNNING | {"lease_id": None}),
    Illegal("chk_build_jobs_lease", "buildjob", RUNNING | {"lease_until": None}),
    Illegal("chk_build_jobs_lease", "buildjob", RUNNING | {"picked_at": None}),
    Illegal("chk_build_jobs_lease", "buildjob", {"lease_id": A}),
    Illegal("chk_build_jobs_lease", "buildjob", {"lease_until": ALWAYS}),
    Illegal(
        "chk_build_jobs_lease",
        "buildjob",
        RUNNING | {"status": "done", "completed_at": ALWAYS},
    ),
    Illegal("chk_build_jobs_picked", "buildjob", {"picked_at": ALWAYS}),
    Illegal(
        "chk_build_jobs_picked",
        "buildjob",
        {"status": "scheduled", "picked_at": ALWAYS},
    ),
    Illegal("chk_build_jobs_priority", "buildjob", {"priority": 101}),
    Illegal("chk_build_jobs_priority", "buildjob", {"priority": -101}),
    Illegal("chk_build_jobs_counts", "buildjob", {"attempt": -1}),
    Illegal("chk_build_jobs_counts", "buildjob", {"failures": -1}),
    Illegal("chk_build_jobs_counts", "buildjob", {"crashes": -1}),
    Illegal("chk_build_jobs_counts", "buildjob", {"max_attempts": 0}),
    Illegal("chk_build_jobs_counts", "buildjob", {"attempt": 2**31 - 1}),
    Illegal("chk_build_jobs_moments", "buildjob", {"due_at": "-infinity"}),
    Illegal("chk_build_jobs_moments", "buildjob", {"created_at": "infinity"}),
    Illegal("chk_build_jobs_moments", "buildjob", {"due_at": "0044-03-15 BC"}),
    Illegal("chk_build_jobs_moments", "buildjob", {"first_started_at": "20000-01-01"}),
    Illegal("chk_build_jobs_queue", "buildjob", {"queue": ""}),
    Illegal(
        "build_jobs_one_open_per_key",
        "buildjob",
        {"dedupe_key": "k"},
        after=({"dedupe_key": "k"},),
    ),
    Illegal("build_jobs_one_lease", "buildjob", RUNNING, after=(RUNNING,)),
    # agents
    _statuses("chk_agents_status", "agent"),
    Illegal("chk_agents_name", "agent", {"name": ""}),
    Illegal("agents_owner_name_active_uniq", "agent", {}, after=({},)),
    # builds
    _statuses("chk_agent_builds_status", "agentbuild"),
    Illegal("chk_agent_builds_completed", "agentbuild", {"status": "success"}),
    Illegal("chk_agent_builds_completed", "agentbuild", {"status": "failed"}),
    Illegal("chk_agent_builds_completed", "agentbuild", {"completed_at": ALWAYS}),
    Illegal(
        "chk_agent_builds_completed",
        "agentbuild",
        {"status": "building", "completed_at": ALWAYS},
    ),
    # versions
    _statuses("chk_agent_versions_status", "agentversion"),
    Illegal(
        "chk_agent_versions_active",
        "agentversion",
        {"is_active": True, "status": "archived"},
    ),
    Illegal("chk_agent_versions_semver", "agentversion", {"version": "1.0"}),
    Illegal("chk_agent_versions_semver", "agentversion", {"version": "01.0.0"}),
    Illegal("chk_agent_versions_semver", "agentversion", {"version": "1.0.0-rc1"}),
    Illegal("chk_agent_versions_semver", "agentversion", {"version": "1.0.0\n"}),
    Illegal("agent_versions_uniq", "agentversion", {}, after=({},)),
    Illegal(
        "agent_versions_one_active",
        "agentversion",
        {"version": "2.0.0", "is_active": True},
        after=({"is_active": True},),
    ),
    # deployments
    _statuses("chk_agent_deployments_status", "agentdeployment"),
    Illegal("chk_agent_deployments_counts", "agentdeployment", {"replicas": -1}),
    Illegal("chk_agent_deployments_counts", "agentdeployment", {"restart_count": -1}),
    Illegal(
        "agent_deployments_one_running",
        "agentdeployment",
        {"status": "running"},
        after=({"status": "running"},),
    ),
    # connectors
    Illegal("chk_connectors_provider", "mcpconnector", {"provider_type": "made_up"}),
    Illegal(
        "chk_connectors_source",
        "mcpconnector",
        {
            "provider_type": "composio",
            "auth_config_id": "x",
            "url": None,
            "source_kind": "made_up",
        },
    ),
    _statuses("chk_connectors_auth", "mcpconnector", "auth_type"),
    _statuses("chk_connectors_build_status", "mcpconnector", "build_status"),
    _statuses("chk_connectors_setup_status", "mcpconnector", "setup_status"),
    *(
        Illegal("chk_connectors_provider_fields", "mcpconnector", changes)
        for changes in (
            {"url": None},
            {"provider_type": "composio", "url": None},
            {"provider_type": "composio", "auth_config_id": "x"},
            {"source_kind": "uploaded_build"},
            {"source_kind": "uploaded_build", "build_status": "running", "url": None},
            {
                "source_kind": "uploaded_build",
                "build_status": "pending",
                "auth_config_id": "x",
            },
        )
    ),
    Illegal("connectors_owner_name_uniq", "mcpconnector", {}, after=({},)),
    Illegal(
        "connectors_name_uniq",
        "mcpconnector",
        {"owner_id": None},
        after=({"owner_id": None},),
    ),
    # connector builds
    _statuses("chk_connector_builds_status", "mcpconnectorbuild"),
    _statuses("chk_connector_builds_runtime", "mcpconnectorbuild", "detected_runtime"),
    Illegal(
        "chk_connector_builds_completed", "mcpconnectorbuild", {"status": "success"}
    ),
    Illegal(
        "chk_connector_builds_completed", "mcpconnectorbuild", {"completed_at": ALWAYS}
    ),
    # runs
    Illegal(
        "chk_job_runs_outcome", "jobrun", {"outcome": "made_up", "ended_at": ALWAYS}
    ),
    Illegal("chk_job_runs_ended", "jobrun", {"ended_at": ALWAYS}),
    Illegal("chk_job_runs_ended", "jobrun", {"outcome": "lost"}),
    Illegal("chk_job_runs_attempt", "jobrun", {"attempt": 0}),
    Illegal(
        "job_runs_one_open_per_key",
        "jobrun",
        {"id": B, "job_id": "{other_job}", "serial_key": "k"},
        after=({"serial_key": "k"},),
    ),
    Illegal("job_runs_one_open_per_job", "jobrun", {"id": B}, after=({},)),
    # log
    _statuses("chk_log_chunks_stream", "logchunk", "stream"),
    Illegal("chk_log_chunks_seq", "logchunk", {"seq": 0}),
    Illegal("log_chunks_once", "logchunk", {}, after=({},)),
    # workers
    _statuses("chk_workers_status", "worker"),
    Illegal("chk_workers_slots", "worker", {"slots": 0}),
    Illegal("chk_workers_slots", "worker", {"busy": -1}),
    # what a job remembers
    Illegal("checkpoints_one_per_step", "checkpoint", {}, after=({},)),
    Illegal("chk_job_progress_count", "jobprogress", {"done": -1}),
    Illegal("chk_job_progress_count", "jobprogress", {"done": 1, "total": -1}),
    # actions
    _statuses("chk_job_actions_status", "jobaction"),
    Illegal("chk_job_actions_executing", "jobaction", {"status": "executing"}),
    Illegal(
        "chk_job_actions_executing",
        "jobaction",
        {"status": "executing", "lease_id": A},
    ),
    Illegal(
        "chk_job_actions_executing",
        "jobaction",
        {"status": "executing", "started_at": ALWAYS},
    ),
    Illegal("job_actions_one_per_key", "jobaction", {"id": B}, after=({},)),
    # notices
    _statuses("chk_notices_status", "notice"),
    Illegal("chk_notices_sent", "notice", {"status": "sent"}),
    Illegal("chk_notices_sent", "notice", {"sent_at": ALWAYS}),
    Illegal("notices_once", "notice", {"id": B}, after=({},)),
    # what agents are like, and to whom they are opened
    Illegal("chk_agents_replicas", "agent", {"replicas": 0}),
    Illegal("chk_agents_replicas", "agent", {"replicas": 17}),
    Illegal("agent_grants_uniq", "agentgrant", {}, after=({},)),
    *(
        Illegal("chk_agent_grants_public", "agentgrant", changes)
        for changes in (
            {"grant_type": "made_up"},
            {"grantee_id": "*"},
            {"grantee_id": ""},
            {"grant_type": "public"},
            {"grant_type": "public", "grantee_id": "*", "can_manage": True},
        )
    ),
    Illegal("connector_tools_uniq", "mcpconnectortool", {}, after=({},)),
    # secrets and sources
    Illegal("owner_secrets_uniq", "ownersecret", {}, after=({},)),
    Illegal("chk_owner_secrets_name", "ownersecret", {"name": "1X"}),
    Illegal("chk_owner_secrets_name", "ownersecret", {"name": "A-B"}),
    Illegal("chk_owner_secrets_name", "ownersecret", {"name": ""}),
    Illegal("chk_sources_size", "source", {"size": -1}),
    Illegal("chk_sources_sha256", "source", {"sha256": "x" * 64}),
    # watches and proposals
    Illegal("source_watches_uniq", "sourcewatch", {}, after=({},)),
    _statuses("chk_source_watches_status", "sourcewatch"),
    _statuses("chk_source_watches_mode", "sourcewatch", "mode"),
    _statuses("chk_source_watches_bump", "sourcewatch", "bump"),
    Illegal("chk_source_watches_interval", "sourcewatch", {"interval_minutes": 0}),
    Illegal("chk_source_watches_interval", "sourcewatch", {"interval_minutes": 10_081}),
    Illegal("chk_source_watches_failures", "sourcewatch", {"failures": -1}),
    Illegal("proposals_one_per_commit", "proposal", {"id": B}, after=({},)),
    Illegal(
        "chk_proposals_status", "proposal", {"status": "made_up", "decided_at": ALWAYS}
    ),
    Illegal("chk_proposals_decided", "proposal", {"status": "accepted"}),
    Illegal("chk_proposals_decided", "proposal", {"decided_at": ALWAYS}),
]


def insert(table: str, row: Row, references: dict[str, str] | None = None) -> str:
    """Insert a row by SQL alone and return its id as text."""
    values = {
        name: value.format(**references or {})
        if isinstance(value, str) and value.startswith("{")
        else json.dumps(value)
        if isinstance(value, dict | list)
        else value
        for name, value in row.items()
    }
    columns = ", ".join(values)
    key = {"jobprogress": "job_id", "source": "key"}.get(table, "id")
    marks = ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO buildqueue_{table} ({columns}) VALUES ({marks}) "
            f"RETURNING {key}",
            list(values.values()),
        )
        return str(cursor.fetchone()[0])


def make_references() -> dict[str, str]:
    """Insert what the rows refer to; return the ids by name."""
    agent = insert("agent", {"name": "referred", "owner_id": "0"})
    made = {"agent": agent}
    made["connector"] = insert(
        "mcpconnector", LEGAL["mcpconnector"] | {"name": "referred", "owner_id": "0"}
    )
    made["build"] = insert("agentbuild", LEGAL["agentbuild"], made)
    made["watch"] = insert(
        "sourcewatch", LEGAL["sourcewatch"] | {"ref": "referred"}, made
    )
    made["job"] = insert("buildjob", LEGAL["buildjob"])
    made["other_job"] = insert("buildjob", LEGAL["buildjob"])
    return made
