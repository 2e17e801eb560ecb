"""How is a cluster made, started, found and stopped?

A cluster appears under its name only when it is whole. Two servers never run on one
cluster: the traces of a server that died are left for PostgreSQL itself to judge, as
only it knows whether a back end of that server is still alive. If the caller dies on
any line the server is up or down, and the next caller goes on from there.
"""

from __future__ import annotations

import enum
import shutil
import signal
import tempfile
from pathlib import Path

from project.embedded_postgres import configuration, processes
from project.embedded_postgres.account import Account, caller
from project.embedded_postgres.binaries import Binaries
from project.embedded_postgres.deadline import Deadline
from project.embedded_postgres.errors import EmbeddedPostgresError
from project.embedded_postgres.places import PORT, SOCKET_NAME, socket_folder

BUILTIN_LOCALE_SINCE = 17
SOCKET_LOCK = f"{SOCKET_NAME}.lock"
LOG = "server.log"
LONGEST_LOG = 5 * 1024 * 1024
TAIL_LINES = 20
SURVIVORS_GET = 5.0  # seconds
CREATE_DATABASE = """\
SELECT format('CREATE DATABASE %I', :'name')
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name')
\\gexec
"""


class Answer(enum.IntEnum):
    """What pg_isready found at the socket: its exit code."""

    READY = 0
    REFUSING = 1  # starting, recovering or shutting down
    SILENT = 2


def create(
    cluster: Path,
    account: Account,
    binaries: Binaries,
    *,
    durable: bool,
    deadline: Deadline,
) -> None:
    """Make a cluster beside its place and move it there; a crash leaves only the first.

    An initdb that outlives a killed caller works in a folder nobody will look at.
    """
    prefix = f"{cluster.name}.new-"
    for leftover in cluster.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix=prefix, dir=cluster.parent))
    try:
        account.own(fresh)
        argv = _initdb(binaries, account, durable=durable)
        told = account.run(argv, cwd=fresh, deadline=deadline)
        if told.returncode:
            raise EmbeddedPostgresError(
                f"initdb could not make a database in {cluster}. Mend what it says and "
                f"start again:\n{_tail(told.stdout + told.stderr)}"
            )
        configuration.include_own_settings(fresh, account)
        fresh.rename(cluster)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def require_version(cluster: Path, account: Account, binaries: Binaries) -> None:
    made_by = (cluster / "PG_VERSION").read_text().strip()
    major = str(binaries.major(account))
    if made_by != major:
        raise EmbeddedPostgresError(
            f"The database in {cluster} was made by PostgreSQL {made_by}, and the "
            f"programs here are of PostgreSQL {major}, which cannot read it. Dump it "
            f"with version {made_by} (pg_dumpall) and restore it, or move that folder "
            "aside to begin with an empty database."
        )


def start(
    cluster: Path,
    account: Account,
    binaries: Binaries,
    *,
    durable: bool,
    deadline: Deadline,
) -> None:
    """Start the server and wait until it lets clients in."""
    _outwait_survivors(cluster, deadline)
    for lock in (cluster / processes.PID_FILE, socket_folder(cluster) / SOCKET_LOCK):
        processes.disown(lock, cluster, account)
    log = cluster / LOG
    if _size(log) > LONGEST_LOG:
        log.replace(cluster / f"{LOG}.1")
    told_before = _size(log)
    configuration.write(cluster, account, durable=durable)
    # Paths are relative, as pg_ctl puts them into a shell command.
    argv: list[str | Path] = [binaries.program("pg_ctl"), "start", "-s", "-D", "."]
    argv += ["-l", LOG, "-w", "-t", str(int(deadline.left))]
    # pg_ctl gives up by itself; being killed it could not say why.
    later = Deadline.after(deadline.left + 10)
    told = account.run(argv, cwd=cluster, deadline=later)
    # A starter that was killed may have left a server on its way up, which then won.
    if told.returncode and processes.postmaster(cluster) is None:
        raise EmbeddedPostgresError(
            f"PostgreSQL did not start on {cluster}. Mend what its log says and start "
            f"again:\n{_tail(told.stderr + _logged(log, told_before))}"
        )


def stop(cluster: Path, *, deadline: Deadline) -> bool:
    """End the server and wait for its end; say whether there was one.

    Open transactions are rolled back and their clients disconnected.
    """
    server = processes.postmaster(cluster)
    if server is None:
        return False
    server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
    while processes.serves(server, cluster):
        if deadline.passed:
            raise EmbeddedPostgresError(
                f"The server of {cluster} (process {server.pid}) has been told to stop "
                f"and still runs. Look into {cluster / LOG} and try again."
            )
        deadline.pause()
    return True


def answer(cluster: Path, binaries: Binaries) -> Answer:
    argv: list[str | Path] = [binaries.program("pg_isready"), "-q", "-t", "5"]
    argv += ["-h", socket_folder(cluster), "-p", str(PORT)]
    code = caller().run(argv, deadline=Deadline.after(30)).returncode
    return Answer(code) if code in (Answer.READY, Answer.REFUSING) else Answer.SILENT


def make_database(
    cluster: Path, binaries: Binaries, *, name: str, deadline: Deadline
) -> None:
    """Make the database if there is none of that name."""
    argv: list[str | Path] = [binaries.program("psql"), "-X", "-q", "-A", "-t", "-w"]
    argv += ["-h", socket_folder(cluster), "-p", str(PORT)]
    argv += ["-U", configuration.ROLE, "-d", "postgres"]
    argv += ["-v", "ON_ERROR_STOP=1", "-v", f"name={name}"]
    told = caller().run(argv, text=CREATE_DATABASE, deadline=deadline)
    if told.returncode:
        raise EmbeddedPostgresError(
            f"The server of {cluster} runs, but the database {name} could not be "
            f"opened or made. Look into {cluster / LOG}:\n{_tail(told.stderr)}"
        )


def _initdb(binaries: Binaries, account: Account, *, durable: bool) -> list[str | Path]:
    argv: list[str | Path] = [binaries.program("initdb"), "-D", ".", "-E", "UTF8"]
    argv += ["-U", configuration.ROLE, "--auth-local=peer", "--auth-host=reject"]
    if binaries.major(account) >= BUILTIN_LOCALE_SINCE:
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    else:
        argv.append("--locale=C.UTF-8")
    return argv if durable else [*argv, "--no-sync"]


def _outwait_survivors(cluster: Path, deadline: Deadline) -> None:
    """Give the back ends of a dead server the moment they need to notice its death."""
    patience = Deadline.after(min(deadline.left, SURVIVORS_GET))
    while (left := processes.survivors(cluster)) and not processes.postmaster(cluster):
        if patience.passed:
            pids = " ".join(map(str, left))
            raise EmbeddedPostgresError(
                f"The server of {cluster} died, and these processes of it did not: "
                f"{pids}. A second server beside them would destroy the database. End "
                f"them (kill -9 {pids}) and start again."
            )
        patience.pause()


def _logged(log: Path, told_before: int) -> str:
    if not log.exists():
        return ""
    return log.read_bytes()[told_before:].decode("utf-8", "replace")


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])
