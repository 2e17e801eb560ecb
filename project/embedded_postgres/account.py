"""Under which account does the server run, and what can that account reach?

PostgreSQL refuses to run as root. Root therefore drops to an account without
privileges; everybody else runs the server as themselves. A cluster that exists is
always run by its owner. Programs get a clean environment: no PG* variable, locale
or time zone of the caller reaches them.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from project.embedded_postgres.deadline import Deadline
from project.embedded_postgres.errors import EmbeddedPostgresError

ROOT = 0
FALLBACK_NAMES = ("postgres", "nobody")
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    name: str
    uid: int
    gid: int

    @property
    def is_caller(self) -> bool:
        return self.uid == os.geteuid()

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        deadline: Deadline,
        cwd: Path = Path("/"),
        text: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end as this account, in a session of its own.

        The session keeps the server out of the reach of the caller's Ctrl-C.
        """
        return subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=deadline.left,
            cwd=cwd,
            env=ENVIRONMENT,
            umask=0o077,
            start_new_session=True,
            user=None if self.is_caller else self.uid,
            group=None if self.is_caller else self.gid,
            extra_groups=None if self.is_caller else [],
        )

    def can_reach(self, path: Path) -> bool:
        """Say whether this account can enter a folder or run a program.

        Asked of the kernel, as mode bits alone know nothing of access lists.
        """
        answer = self.run(["test", "-x", path], deadline=Deadline.after(10))
        return answer.returncode == 0

    def own(self, path: Path) -> None:
        if not self.is_caller:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def of_uid(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedPostgresError(
            f"The user id {uid} has no entry in /etc/passwd, which PostgreSQL needs. "
            "Add one, run as another user, or set DATABASE_URL to a server of your own."
        ) from None
    return Account(name=entry.pw_name, uid=uid, gid=entry.pw_gid)


def caller() -> Account:
    return of_uid(os.geteuid())


def for_new_cluster() -> Account:
    """Choose who will own a cluster that does not exist yet."""
    if os.geteuid() != ROOT:
        return caller()
    for name in FALLBACK_NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != ROOT:
            return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise EmbeddedPostgresError(
        "PostgreSQL refuses to run as root, and there is no account to run it under: "
        f"none of {', '.join(FALLBACK_NAMES)} exists. Make one "
        "(useradd --system postgres), run as an ordinary user, or set DATABASE_URL."
    )


def for_cluster(cluster: Path) -> Account:
    """Return the owner of a cluster, if the caller may act for that owner."""
    uid = cluster.stat().st_uid
    if uid == ROOT:
        raise EmbeddedPostgresError(
            f"{cluster} belongs to root, as whom PostgreSQL refuses to run. "
            "Give it back to the account that made it (chown -R)."
        )
    owner = of_uid(uid)
    if os.geteuid() not in (ROOT, uid):
        raise EmbeddedPostgresError(
            f"{cluster} belongs to the user {owner.name}. Run as that user or as root, "
            "choose another folder, or set DATABASE_URL."
        )
    return owner
