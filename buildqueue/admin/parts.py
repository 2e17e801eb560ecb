"""Which rows stand on the page of an agent, a connector or a watch, and what of each?

No part reads a ciphertext or what was printed: those columns stay in the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import F
from django.template.defaultfilters import truncatechars
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from ..builds.submission.rollbacks import eligible
from ..models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    AgentGrant,
    AgentVersion,
    BuildJob,
    McpConnector,
    McpConnectorBuild,
    McpConnectorTool,
    Proposal,
    SourceWatch,
)
from ..states import GrantType, ProposalStatus
from . import display, moments, people, repositories
from .related import Column, Part

NEWEST = ("-created_at", "-id")
LONGEST = 200  # characters of a cell
MOST_TOOLS = 100
NOT_READ = ("logs", "secrets_env", "source_token")
NOWRAP, WRAP = "bq-nowrap", "bq-wrap"


def _state(row: Any) -> display.Shown:
    return display.badge(row.status, row.get_status_display())


def _cut(text: str | None) -> str:
    return truncatechars(text or "", LONGEST)


def _reason(row: Any) -> display.Shown:
    """Return the code and the first words of why it failed."""
    words = _cut(row.error_msg)
    if not row.error_code:
        return words
    return format_html("{} {}", display.code(display.breakable(row.error_code)), words)


def _age(row: Any) -> display.Shown:
    return moments.ago(row.created_at)


STATE = Column(title=_("Status"), cell=_state)
AGE = Column(title=_("Created"), cell=_age, look=NOWRAP)
REASON = Column(title=_("Reason"), cell=_reason, is_wide=True)
HINT = Column(title=_("What helps"), cell=lambda row: _cut(row.hint), is_wide=True)
PHASE = Column(title=_("Phase"), cell=lambda row: row.phase or "")
VERSION = Column(title=_("Version"), cell=lambda row: row.version_tag)


def jobs(**owner: Any) -> Part:
    """Return the jobs of an agent or connector."""
    name = Column(title=_("Job"), cell=str)
    mine = BuildJob.objects.filter(**owner).order_by(*NEWEST)
    return Part(
        rows=mine.defer("payload"), columns=(name, STATE, REASON, AGE), query=owner
    )


def versions(agent: Agent) -> Part:
    """Return the versions of an agent, with those that can be deployed again."""

    def prepare(rows: Sequence[AgentVersion]) -> None:
        ready = set(eligible(agent).values_list("pk", flat=True))
        for row in rows:
            row.is_eligible = row.pk in ready  # type: ignore[attr-defined]

    return Part(
        rows=AgentVersion.objects.filter(agent=agent).order_by(*NEWEST),
        columns=(
            Column(title=_("Version"), cell=str),
            STATE,
            Column(
                title=_("Can be deployed again"),
                cell=lambda row: display.yes(row.is_eligible),
            ),
            Column(
                title=_("What changed"),
                cell=lambda row: _cut(row.changelog),
                is_wide=True,
            ),
            AGE,
        ),
        query={"agent": agent.pk},
        prepare=prepare,
    )


def deployments(agent: Agent) -> Part:
    """Return the deployments of an agent, with how they crashed."""
    mine = AgentDeployment.objects.filter(agent=agent).order_by(*NEWEST)
    return Part(
        rows=mine.defer("last_logs").annotate(version_tag=F("build__version_tag")),
        columns=(
            VERSION,
            STATE,
            Column(title=_("Copies"), cell=lambda row: str(row.replicas)),
            Column(title=_("Restarts"), cell=lambda row: str(row.restart_count)),
            Column(
                title=_("Crash reason"),
                cell=lambda row: _cut(row.crash_reason),
                is_wide=True,
            ),
            Column(title=_("Host"), cell=lambda row: row.host or "", look=WRAP),
            AGE,
        ),
        query={"agent": agent.pk},
    )


def builds(agent: Agent) -> Part:
    """Return the builds of an agent, with what would help those that failed."""
    mine = AgentBuild.objects.filter(agent=agent).order_by(*NEWEST)
    return Part(
        rows=mine.defer(*NOT_READ),
        columns=(VERSION, STATE, PHASE, REASON, HINT, AGE),
        query={"agent": agent.pk},
    )


def connector_builds(connector: McpConnector) -> Part:
    """Return the builds of a connector."""
    mine = McpConnectorBuild.objects.filter(connector=connector).order_by(*NEWEST)
    return Part(
        rows=mine.defer(*NOT_READ),
        columns=(VERSION, STATE, PHASE, REASON, HINT, AGE),
        query={"connector": connector.pk},
    )


def tools(connector: McpConnector) -> Part:
    """Return the tools that a connector told of last."""
    mine = McpConnectorTool.objects.filter(connector=connector).order_by("name")
    return Part(
        rows=mine.defer("input_schema"),
        columns=(
            Column(title=_("Tool"), cell=lambda row: row.name),
            Column(
                title=_("What it does"),
                cell=lambda row: _cut(row.description or row.title),
                is_wide=True,
            ),
            Column(title=_("Seen"), cell=lambda r: moments.ago(r.seen_at), look=NOWRAP),
        ),
        has_pages=False,
        most=MOST_TOOLS,
    )


def watches(agent: Agent) -> Part:
    """Return the branches and tags that an agent follows."""
    return Part(
        rows=SourceWatch.objects.filter(agent=agent).order_by(*NEWEST),
        columns=(
            Column(title=_("Branch or tag"), cell=lambda row: row.ref),
            STATE,
            Column(title=_("Does"), cell=lambda row: row.get_mode_display()),
            Column(
                title=_("Repository"),
                cell=lambda row: repositories.plain(row.git_url),
                look=WRAP,
                is_wide=True,
            ),
            Column(
                title=_("Last error"),
                cell=lambda row: _cut(row.last_error if row.failures else ""),
                is_wide=True,
            ),
            Column(
                title=_("Checked"),
                cell=lambda r: moments.ago(r.checked_at),
                look=NOWRAP,
            ),
        ),
        query={"agent": agent.pk},
    )


def open_proposals(agent: Agent) -> Part:
    """Return the updates of an agent that wait for a person."""
    mine = Proposal.objects.filter(agent=agent, status=ProposalStatus.OPEN)
    return proposals(mine, title=_("open proposals"), agent=agent.pk)


def proposals_of(watch: SourceWatch) -> Part:
    """Return what a watch has proposed."""
    mine = Proposal.objects.filter(watch=watch)
    return proposals(mine, status="all", watch=watch.pk)


def proposals(rows: Any, *, title: Any = "", **query: Any) -> Part:
    """Return a part of proposals."""
    commit = Column(title=_("Commit"), cell=lambda row: row.commit_hash[:12])
    told = Column(title=_("Summary"), cell=lambda row: _cut(row.summary), is_wide=True)
    columns = (commit, STATE, told, AGE)
    return Part(rows=rows.order_by(*NEWEST), title=title, columns=columns, query=query)


def grants(agent: Agent) -> Part:
    """Return to whom an agent is opened."""

    def prepare(rows: Sequence[AgentGrant]) -> None:
        found = people.names(row.grantee_id for row in rows)
        for row in rows:
            row.grantee = _grantee(row, found)  # type: ignore[attr-defined]

    return Part(
        rows=AgentGrant.objects.filter(agent=agent).order_by(*NEWEST),
        title=_("open to others"),
        columns=(
            Column(title=_("To"), cell=lambda row: row.grantee),
            Column(title=_("May"), cell=_allowed),
            Column(title=_("Since"), cell=_age, look=NOWRAP),
        ),
        has_pages=False,
        most=200,  # as many as there may be
        prepare=prepare,
    )


def _grantee(grant: AgentGrant, found: dict[str, str]) -> str:
    if grant.grant_type == GrantType.PUBLIC:
        return str(grant.get_grant_type_display())
    return people.words(grant.grantee_id, found.get(grant.grantee_id))


def _allowed(grant: AgentGrant) -> str:
    return str(_("see and change it") if grant.can_manage else _("see it"))
