"""Which statuses have agents, connectors, their builds, and what follows a repository?"""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class AgentStatus(TextChoices):
    """What an agent's owner sees."""

    REGISTERED = "registered", _("registered")
    DEPLOYING = "deploying", _("deploying")
    RUNNING = "running", _("running")
    FAILED = "failed", _("failed")
    STOPPED = "stopped", _("stopped")


class BuildStatus(TextChoices):
    """The state of an agent's build."""

    QUEUED = "queued", _("queued")
    BUILDING = "building", _("building")
    SUCCESS = "success", _("success")
    FAILED = "failed", _("failed")


class VersionStatus(TextChoices):
    """The state of an agent's version; one is active at most."""

    BUILDING = "building", _("building")  # reserved, its build is under way
    PUSHED = "pushed", _("pushed")  # can be deployed, is not
    ACTIVE = "active", _("active")
    ARCHIVED = "archived", _("archived")


class DeploymentStatus(TextChoices):
    """The state of an agent's deployment; one is running at most."""

    STARTING = "starting", _("starting")
    RUNNING = "running", _("running")
    STOPPED = "stopped", _("stopped")
    FAILED = "failed", _("failed")
    CRASHED = "crashed", _("crashed")


class ConnectorStatus(TextChoices):
    """The build status on the connector itself; external ones have none."""

    PENDING = "pending", _("pending")
    BUILDING = "building", _("building")
    RUNNING = "running", _("running")
    FAILED = "failed", _("failed")


class WatchStatus(TextChoices):
    """Whether a followed branch or tag is looked at."""

    ACTIVE = "active", _("active")
    PAUSED = "paused", _("paused")  # by a person, or after too many failures


class ProposalStatus(TextChoices):
    """What became of an update that a watch has proposed."""

    OPEN = "open", _("open")
    ACCEPTED = "accepted", _("accepted")  # a job does it
    DISMISSED = "dismissed", _("dismissed")
    SUPERSEDED = "superseded", _("superseded")  # a newer commit was found


class WatchMode(TextChoices):
    """What a watch does about a new commit."""

    UPDATE = "update", _("update at once")
    PROPOSE = "propose", _("propose an update")


class GrantType(TextChoices):
    """To whom an agent is opened."""

    USER = "user", _("a user")
    PUBLIC = "public", _("everybody")


class ConnectorSetupStatus(TextChoices):
    """The set-up of a connector that a provider hosts; uploads have none."""

    PENDING = "pending", _("pending")
    ACTIVE = "active", _("active")
    FAILED = "failed", _("failed")


class ConnectorBuildStatus(TextChoices):
    """The state of a connector's build."""

    PENDING = "pending", _("pending")
    BUILDING = "building", _("building")
    SUCCESS = "success", _("success")
    FAILED = "failed", _("failed")


class ConnectorProvider(TextChoices):
    """Who runs the connector's server."""

    COMPOSIO = "composio", "Composio"
    MCP_SERVER = "mcp_server", _("MCP server")


class ConnectorSource(TextChoices):
    """Where the connector's server comes from."""

    EXTERNAL_URL = "external_url", _("external URL")
    UPLOADED_BUILD = "uploaded_build", _("uploaded build")


class ConnectorAuth(TextChoices):
    """How a connector's server wants callers to prove themselves."""

    NONE = "none", _("none")
    BEARER = "bearer", _("bearer token")
    BASIC = "basic", _("basic")
    OAUTH2 = "oauth2", "OAuth 2"
    URL_PARAM = "url_param", _("URL parameter")


BUILD_FLOW: dict[str, frozenset[str]] = {
    # status -> the statuses it may follow; a retried job builds again
    BuildStatus.BUILDING: frozenset({"queued", "building", "failed"}),
    BuildStatus.SUCCESS: frozenset({"building"}),
    BuildStatus.FAILED: frozenset({"queued", "building"}),
    BuildStatus.QUEUED: frozenset({"building", "failed"}),
}

# The kinds whose jobs must have a target, in our spelling and in nasiko's.
BUILD_KINDS: dict[str, str] = {
    "upload": "Upload",
    "update": "Update",
    "rollback": "Rollback",
    "clone": "Clone",
    "github_clone": "GithubClone",
    "standalone_build": "StandaloneBuild",
    "mcp_server_upload": "McpServerUpload",
}
