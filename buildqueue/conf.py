"""Which settings are there, what do they mean, and what are they now?

One dict in the host's settings, `BUILDQUEUE = {...}`; each key is a field below in
capitals. Read lazily, cached, cleared when Django says that settings changed. Faults
are told by `manage.py check` (buildqueue.E001 to E003), not by an import.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings with their defaults; the comment above each is its documentation."""

    # How long a lease lasts; a worker that goes silent loses its jobs after it.
    lease_seconds: float = 60.0
    # How often a worker renews the leases of its living slots.
    renewal_seconds: float = 20.0
    # How often an idle worker looks for jobs when it can LISTEN for wake-ups.
    poll_seconds: float = 5.0
    # How often it looks when it cannot LISTEN (behind a transaction pooler).
    poll_seconds_without_listen: float = 1.0
    # How often workers look for dead workers.
    watch_seconds: float = 2.0
    # How long a worker's lock must be gone before it counts as dead.
    watch_grace_seconds: float = 5.0
    # How often runs whose lease is over are rescued.
    rescue_seconds: float = 15.0
    # How often maintenance runs.
    maintenance_seconds: float = 60.0
    # How many failures and crashes a job may have before it fails for good.
    max_attempts: int = 3
    # How long a job of a build kind may run.
    build_time_limit_seconds: float = 1800.0
    # The first delay before a retry; doubled for each further failure.
    backoff_base_seconds: float = 2.0
    # The longest delay before a retry.
    backoff_max_seconds: float = 600.0
    # How much a retry's delay may vary, as a part of it.
    backoff_jitter: float = 0.2
    # How many jobs a worker runs at once.
    slots: int = 2
    # How many jobs a slot's process runs before it is replaced by a fresh one.
    slot_max_jobs: int = 100
    # How long a stopping worker lets its jobs finish before it hands them back.
    # None waits until they are done.
    drain_seconds: float | None = 110.0
    # How long a process gets between TERM and KILL.
    kill_grace_seconds: float = 5.0
    # How much output is kept of one run; what comes after is counted, not kept.
    log_max_bytes_per_run: int = 16 * 1024 * 1024
    # The alias of a connection that reaches PostgreSQL past any pooler, used for
    # LISTEN and session locks. None: the alias of the jobs, if a probe shows it direct.
    direct_database: str | None = None
    # The alias in STORAGES that keeps sources. None: files below DATA_DIR.
    source_storage: str | None = None
    # The folder of sources, bundles and the local runtime. None: BASE_DIR/var.
    data_dir: str | Path | None = None
    # Whether the local backend may run agents that see what the worker sees, where
    # neither another account nor a user namespace is possible.
    local_allow_unconfined: bool = False
    # The ports from which the local runtime takes addresses and instances.
    local_ports: tuple[int, int] = (20000, 29999)
    # How often a new deployment is asked whether it is healthy, and how far apart.
    health_tries: int = 30
    health_interval_seconds: float = 3.0
    # The largest upload, in bytes.
    upload_max_bytes: int = 100 * 1024 * 1024
    # How many entries a source archive may have, and how many bytes when unpacked.
    archive_max_entries: int = 1000
    archive_max_unpacked_bytes: int = 200 * 1024 * 1024
    # Processes that a worker starts on its host and keeps running, as dotted paths to
    # functions that return a command, or None when nothing is to be started.
    host_services: tuple[str, ...] = ("buildqueue.executors.services.local_runtime",)

    # What a host can do that others may not, as dotted paths to functions that return
    # names; a job that requires one runs only there.
    capabilities: tuple[str, ...] = ("buildqueue.executors.services.capabilities",)
    # Functions that every worker calls at each maintenance, as dotted paths.
    duties: tuple[str, ...] = ("buildqueue.executors.reconcile.reconcile_host",)

    # Faults found while reading; shown by the system checks.
    faults: tuple[str, ...] = field(default=(), repr=False)

    def data_path(self) -> Path:
        """Return the folder of everything that is kept outside the database."""
        if self.data_dir is not None:
            return Path(self.data_dir)
        base = getattr(django_settings, "BASE_DIR", None)
        root = Path(base) if base else Path.home() / ".local" / "share"
        return root / ("var" if base else "buildqueue")


NAMES = {f.name.upper(): f for f in fields(Settings) if f.name != "faults"}


@lru_cache(maxsize=1)
def get() -> Settings:
    """Return the settings in force."""
    given: dict[str, Any] = getattr(django_settings, "BUILDQUEUE", None) or {}
    known, faults = {}, []
    for key, value in given.items():
        if key in NAMES:
            known[key.lower()] = value
            continue
        near = get_close_matches(key, NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        faults.append(f"BUILDQUEUE has no setting {key!r}{hint}")
    made = Settings(**known)
    return Settings(**known, faults=(*faults, *_contradictions(made)))


def _contradictions(made: Settings) -> list[str]:
    faults = [
        f"BUILDQUEUE[{name.upper()!r}] must be above 0, not {value!r}"
        for name in POSITIVE
        if not isinstance(value := getattr(made, name), int | float) or value <= 0
    ]
    if faults:
        return faults
    if made.lease_seconds < 2 * made.renewal_seconds:
        faults.append(
            "BUILDQUEUE['LEASE_SECONDS'] must be at least twice RENEWAL_SECONDS: "
            "one late renewal would lose every lease"
        )
    if made.drain_seconds is not None and made.drain_seconds < 0:
        faults.append("BUILDQUEUE['DRAIN_SECONDS'] must be 0 or more, or None")
    low, high = made.local_ports
    if not 1024 <= low < high <= 65535:
        faults.append("BUILDQUEUE['LOCAL_PORTS'] must be two ports, 1024 to 65535")
    return faults


POSITIVE = (
    "lease_seconds",
    "renewal_seconds",
    "poll_seconds",
    "poll_seconds_without_listen",
    "watch_seconds",
    "watch_grace_seconds",
    "rescue_seconds",
    "maintenance_seconds",
    "max_attempts",
    "build_time_limit_seconds",
    "backoff_base_seconds",
    "backoff_max_seconds",
    "slots",
    "slot_max_jobs",
    "kill_grace_seconds",
    "log_max_bytes_per_run",
    "health_tries",
    "health_interval_seconds",
    "upload_max_bytes",
    "archive_max_entries",
    "archive_max_unpacked_bytes",
)


def _forget(*, setting: str, **kwargs: object) -> None:
    if setting in {"BUILDQUEUE", "BASE_DIR"}:
        get.cache_clear()


setting_changed.connect(_forget, dispatch_uid="buildqueue.conf")
