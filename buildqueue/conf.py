"""Which settings are there, what do they mean, and what are they now?

One dict in the host's settings, `BUILDQUEUE = {...}`; each key is a field below in
capitals. Read lazily, cached, cleared when Django says that settings changed. Faults
are told by `manage.py check` (buildqueue.E001 to E004), not by an import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.encoding import force_bytes
from pydantic import Field, TypeAdapter, ValidationError

from .destinations import Destinations

Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Days: TypeAlias = Annotated[float, Field(gt=0, le=36500)]
Count: TypeAlias = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings with their defaults; the comment above each is its documentation."""

    # How long a lease lasts; a worker that goes silent loses its jobs after it.
    lease_seconds: Seconds = 60.0
    # How often a worker renews the leases of its living slots.
    renewal_seconds: Seconds = 20.0
    # How often an idle worker looks for jobs when it can LISTEN for wake-ups.
    poll_seconds: Seconds = 5.0
    # How often it looks when it cannot LISTEN (behind a transaction pooler).
    poll_seconds_without_listen: Seconds = 1.0
    # How often workers look for dead workers.
    watch_seconds: Seconds = 2.0
    # How long a worker's lock must be gone before it counts as dead.
    watch_grace_seconds: Seconds = 5.0
    # How often runs whose lease is over are rescued.
    rescue_seconds: Seconds = 15.0
    # How often maintenance runs.
    maintenance_seconds: Seconds = 60.0
    # How many failures and crashes a job may have before it fails for good.
    max_attempts: Count = 3
    # How long a job of a build kind may run.
    build_time_limit_seconds: Seconds = 1800.0
    # The first delay before a retry; doubled for each further failure.
    backoff_base_seconds: Seconds = 2.0
    # The longest delay before a retry.
    backoff_max_seconds: Seconds = 600.0
    # How much a retry's delay may vary, as a part of it.
    backoff_jitter: Annotated[float, Field(ge=0, lt=1)] = 0.2
    # How many jobs a worker runs at once.
    slots: Count = 2
    # How many jobs a slot's process runs before it is replaced by a fresh one.
    slot_max_jobs: Count = 100
    # How long a stopping worker lets its jobs finish before it hands them back.
    # None waits until they are done.
    drain_seconds: Annotated[float, Field(ge=0)] | None = 110.0
    # How long a process gets between TERM and KILL.
    kill_grace_seconds: Seconds = 5.0
    # The same when a person took the job away: it should be gone within a second.
    revoke_grace_seconds: Seconds = 0.5
    # How long an action waits for a person's decision.
    action_expiry_seconds: Seconds = 1800.0
    # How many generations of children a job may have.
    child_depth: Count = 8
    # How long jobs that ended done, or otherwise, are kept. None: for ever.
    retention_done_days: Days | None = 14.0
    retention_failed_days: Days | None = 90.0
    # Who is told what: a list of dicts with `name`, `events`, and `webhook` with
    # `secret`, or `email`.
    notices: Destinations = ()
    # How much output is kept of one run; what comes after is counted, not kept.
    log_max_bytes_per_run: Count = 16 * 1024 * 1024
    # The alias of a connection that reaches PostgreSQL past any pooler, used for
    # LISTEN and session locks. None: the alias of the jobs, if a probe shows it direct.
    direct_database: str | None = None
    # The alias in STORAGES that keeps sources. None: files below DATA_DIR.
    source_storage: str | None = None
    # How long a source that nobody used, and no rollback needs, is kept.
    source_retention_days: Days = 14.0
    # The folder of sources, bundles and the local runtime. None: BASE_DIR/var.
    data_dir: str | Path | None = None
    # Whether the local backend may run agents that see what the worker sees, where
    # neither another account nor a user namespace is possible.
    local_allow_unconfined: bool = False
    # The ports from which the local runtime takes addresses and instances.
    local_ports: tuple[int, int] = (20000, 29999)
    # How often a new deployment is asked whether it is healthy, and how far apart.
    health_tries: Count = 30
    health_interval_seconds: Seconds = 3.0
    # How many earlier versions of an agent can be gone back to; what older ones need
    # is removed.
    keep_versions: Count = 10
    # The largest upload, in bytes.
    upload_max_bytes: Count = 100 * 1024 * 1024
    # How many entries a source archive may have, and how many bytes when unpacked.
    archive_max_entries: Count = 1000
    archive_max_unpacked_bytes: Count = 200 * 1024 * 1024
    # By what repositories are fetched.
    git_protocols: tuple[Literal["https", "http"], ...] = ("https",)
    # The hosts they are fetched from, exactly: "name", or "name:port" where the port
    # is another one. "*" is every host, also those that only this machine can reach.
    git_hosts: tuple[str, ...] = ("github.com", "gitlab.com", "bitbucket.org")
    # How long fetching a repository may take.
    git_timeout_seconds: Seconds = 300.0
    # How many bytes fetching a repository may take on the wire and on disk.
    git_max_bytes: Count = 500 * 1024 * 1024
    # What owners' secrets are encrypted with, newest first; the others only read.
    # Empty: Django's SECRET_KEY and SECRET_KEY_FALLBACKS.
    secret_keys: tuple[Annotated[str, Field(min_length=1)], ...] = field(
        default=(), repr=False
    )
    # What the host adds to the environment of what it runs, never stored: dotted paths
    # to functions that take an agent or a connector and return names and values.
    env_providers: tuple[str, ...] = ()
    # Processes that a worker starts on its host and keeps running, as dotted paths to
    # functions that return a command, or None when nothing is to be started.
    host_services: tuple[str, ...] = (
        "buildqueue.executors.services.local_runtime_in_use",
    )
    # What a host can do that others may not, as dotted paths to functions that return
    # names; a job that requires one runs only there.
    capabilities: tuple[str, ...] = ("buildqueue.executors.services.capabilities",)
    # Functions that every worker calls at each maintenance, as dotted paths.
    duties: tuple[str, ...] = (
        "buildqueue.executors.reconcile.reconcile_host",
        "buildqueue.executors.cleaning.prune_sources",
        "buildqueue.executors.cleaning.prune_artifacts",
        "buildqueue.executors.cleaning.remove_left_uploads",
        "buildqueue.executors.cleaning.free_jobs_of_lost_hosts",
        "buildqueue.executors.watching.enqueue_due_checks",
        "buildqueue.executors.watching.repair_accepted",
    )

    # Faults found while reading; shown by the system checks.
    faults: tuple[str, ...] = field(default=(), repr=False)

    def data_path(self) -> Path:
        """Return the folder of everything that is kept outside the database."""
        if self.data_dir is not None:
            return Path(self.data_dir)
        base = getattr(django_settings, "BASE_DIR", None)
        root = Path(base) if base else Path.home() / ".local" / "share"
        return root / ("var" if base else "buildqueue")

    def key_material(self) -> tuple[bytes, ...]:
        """Return what secrets are encrypted with, newest first; never nothing.

        A faulty SECRET_KEYS is no reason to encrypt with something else.
        """
        given = getattr(django_settings, "BUILDQUEUE", None)
        wanted = isinstance(given, Mapping) and given.get("SECRET_KEYS")
        if wanted and not self.secret_keys:
            raise ImproperlyConfigured("BUILDQUEUE['SECRET_KEYS'] is not valid")
        own = (django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS)
        return tuple(force_bytes(key) for key in self.secret_keys or own)


UNTOLD = {"NOTICES", "SECRET_KEYS"}  # their values hold secrets
NAMES = {f.name.upper(): f for f in fields(Settings) if f.name != "faults"}


@lru_cache(maxsize=1)
def get() -> Settings:
    """Return the settings in force; a faulty one counts as not given."""
    given = getattr(django_settings, "BUILDQUEUE", None) or {}
    if not isinstance(given, Mapping):
        return Settings(faults=("BUILDQUEUE must be a dict",))
    hints = get_type_hints(Settings, include_extras=True)
    known: dict[str, Any] = {}
    faults: list[str] = []
    for key, value in given.items():
        if key not in NAMES:
            faults.append(f"BUILDQUEUE has no setting {key!r}{_hint(key)}")
            continue
        name = key.lower()
        try:
            known[name] = TypeAdapter(hints[name]).validate_python(value)
        except ValidationError as error:
            faults.append(_fault(key, value, error))
    faults += _contradictions(Settings(**known))
    return Settings(**known, faults=tuple(faults))


def _fault(key: str, value: object, error: ValidationError) -> str:
    """Return what is wrong with a value, and where; no secret is repeated."""
    first = error.errors(include_url=False)[0]
    why = first["msg"].removeprefix("Value error, ")
    if key in UNTOLD:
        place = "".join(f"[{part!r}]" for part in first["loc"])
        return f"BUILDQUEUE[{key!r}]{place}: {why}"
    return f"BUILDQUEUE[{key!r}] is {value!r}: {why}"


def _hint(key: object) -> str:
    near = get_close_matches(str(key).upper(), NAMES, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _contradictions(made: Settings) -> list[str]:
    faults = []
    if made.lease_seconds < 2 * made.renewal_seconds:
        faults.append(
            "BUILDQUEUE['LEASE_SECONDS'] must be at least twice RENEWAL_SECONDS: "
            "one late renewal would lose every lease"
        )
    if made.backoff_max_seconds < made.backoff_base_seconds:
        faults.append(
            "BUILDQUEUE['BACKOFF_MAX_SECONDS'] must not be below BACKOFF_BASE_SECONDS"
        )
    low, high = made.local_ports
    if not 1024 <= low < high <= 65535:
        faults.append("BUILDQUEUE['LOCAL_PORTS'] must be two ports, 1024 to 65535")
    return faults


def _forget(*, setting: str, **kwargs: object) -> None:
    if setting in {"BUILDQUEUE", "BASE_DIR"}:
        get.cache_clear()


setting_changed.connect(_forget, dispatch_uid="buildqueue.conf")
