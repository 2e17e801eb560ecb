"""How does a person have an agent follow a branch or tag, or end that again?

Each is one transaction: if the process dies before its commit nothing has happened,
after it the duty of the watches goes by the row. Callers check whether the actor may
change the agent; the token of a private repository is always one of its owner's.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError
from django.db.models import QuerySet
from django.db.models.functions import Now

from ..backends import gitaddress
from ..exceptions import Refused, Rejected
from ..models import Agent, BuildJob, Proposal, SourceWatch
from ..queue import database
from ..queue.logs import storable
from ..queue.outcomes import Actor
from ..states import WatchMode, WatchStatus
from . import gitaccess, secrets, watchchecks
from .lifecycle import rows

MOST_WATCHES = 20  # of one agent
INTERVALS = (1, 10_080)  # minutes
BUMPS = ("patch", "minor", "major")
MOST_CREATOR = 100


def create_watch(
    agent: Agent,
    *,
    url: str,
    ref: str,
    actor: Actor,
    mode: str = WatchMode.PROPOSE.value,
    bump: str = "patch",
    interval_minutes: int = 10,
    secret: str | None = None,
) -> SourceWatch:
    """Have the agent follow a branch or tag; it is looked at as soon as may be."""
    _check_choices(mode, bump, interval_minutes)
    made = SourceWatch(
        git_url=_checked_url(url),
        ref=_checked_ref(ref),
        secret_name=secret,
        mode=mode,
        bump=bump,
        interval_minutes=interval_minutes,
        created_by=actor.id[:MOST_CREATOR],
    )
    with database.atomic():
        live = _lock_live(agent)
        _check_secret(live, secret)
        _check_count(live)
        made.agent = live
        _insert(made)
    made.refresh_from_db(using=database.alias())
    return made


def pause_watch(watch: SourceWatch, *, actor: Actor, reason: str = "") -> SourceWatch:
    """Look at it no more until somebody resumes it. Of no effect on a paused one."""
    with database.atomic():
        found = _lock(watch)
        if found.status == WatchStatus.ACTIVE:
            why = storable(
                f"paused by {actor.label}" + (f": {reason}" if reason else "")
            )
            _row(found).update(status=WatchStatus.PAUSED, pause_reason=why)
            found.refresh_from_db(using=database.alias())
    return found


def resume_watch(watch: SourceWatch, *, actor: Actor, reason: str = "") -> SourceWatch:
    """Look at it again, now, its failures forgotten. Of no effect on an active one."""
    with database.atomic():
        found = _lock(watch)
        _check_live(found.agent)
        if found.status == WatchStatus.PAUSED:
            _row(found).update(
                status=WatchStatus.ACTIVE, pause_reason=None, failures=0, due_at=Now()
            )
            found.refresh_from_db(using=database.alias())
    return found


def remove_watch(watch: SourceWatch, *, actor: Actor, reason: str = "") -> None:
    """Forget the watch and all it has proposed; a check under way then does nothing."""
    with database.atomic():
        if watchchecks.lock(watch.pk) is None:
            return
        Proposal.objects.using(database.alias()).filter(watch_id=watch.pk).delete()
        watchchecks.watches().filter(pk=watch.pk).delete()


def check_now(watch: SourceWatch, *, actor: Actor, reason: str = "") -> BuildJob:
    """Queue a check now and return it; the open one when there is one."""
    with database.atomic():
        found = _lock(watch)
        _check_live(found.agent)
        if found.status != WatchStatus.ACTIVE:
            raise Refused(
                "watch_paused", "the watch is paused: resume it first", status=409
            )
        return watchchecks.ask(found, actor=actor)


def _check_choices(mode: str, bump: str, interval_minutes: int) -> None:
    least, most = INTERVALS
    faults = {
        "mode": "" if mode in WatchMode.values else _one_of(WatchMode.values),
        "bump": "" if bump in BUMPS else _one_of(BUMPS),
        "interval_minutes": ""
        if least <= interval_minutes <= most
        else f"must be from {least} to {most}",
    }
    wrong = {name: fault for name, fault in faults.items() if fault}
    if wrong:
        told = "; ".join(f"{name} {fault}" for name, fault in wrong.items())
        raise Refused("invalid_parameter", told, fields=wrong)


def _one_of(choices: Iterable[str]) -> str:
    return f"must be one of {', '.join(choices)}"


def _checked_url(url: str) -> str:
    try:
        return gitaddress.check_url(url, gitaccess.access())
    except Rejected as error:
        raise _refused(error, "url") from error


def _checked_ref(ref: str) -> str:
    if gitaddress.is_commit(ref):
        why = "a commit never moves: name a branch or a tag"
        raise Refused("invalid_parameter", why, fields={"ref": why})
    try:
        return gitaddress.check_ref(ref)
    except Rejected as error:
        raise _refused(error, "ref") from error


def _refused(error: Rejected, field: str) -> Refused:
    return Refused(error.code, str(error), fields={field: str(error)})


def _check_secret(agent: Agent, name: str | None) -> None:
    known = {secret.name for secret in secrets.names(agent.owner_id)} if name else set()
    if name and name not in known:
        why = "the agent's owner has no secret of this name"
        raise Refused("secret_missing", why, fields={"secret": why})


def _check_count(agent: Agent) -> None:
    if watchchecks.watches().filter(agent=agent).count() >= MOST_WATCHES:
        raise Refused(
            "too_many_watches",
            f"the agent follows {MOST_WATCHES} branches or tags: remove one first",
            status=409,
        )


def _insert(made: SourceWatch) -> None:
    try:
        with database.atomic():
            made.save(using=database.alias(), force_insert=True)
    except IntegrityError as error:
        if "source_watches_uniq" not in str(error):
            raise
        why = "the agent follows this branch or tag already"
        raise Refused("watch_exists", why, status=409, fields={"ref": why}) from None


def _lock_live(agent: Agent) -> Agent:
    found = rows.lock_agent(agent.pk)
    if found is None:
        raise Refused("agent_deleted", "the agent was deleted", status=409)
    _check_live(found)
    return found


def _check_live(agent: Agent) -> None:
    if agent.deleted_at is not None:
        raise Refused("agent_deleted", "the agent was deleted", status=409)


def _lock(watch: SourceWatch) -> SourceWatch:
    found = watchchecks.lock(watch.pk)
    if found is None:
        raise Refused("not_found", "the watch was removed", status=404)
    return found


def _row(found: SourceWatch) -> QuerySet[SourceWatch]:
    return watchchecks.watches().filter(pk=found.pk)
