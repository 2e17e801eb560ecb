"""Start, stop and ask for the demo's PostgreSQL: python -m project.embedded_postgres.

Exit codes: 0 done (or running), 1 failed, 2 wrong usage, 3 not running.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from project.embedded_postgres import (
    DATA_DIR,
    DATABASE,
    EmbeddedPostgresError,
    ensure,
    status,
    stop,
    url,
)

FAILED = 1
NOT_RUNNING = 3


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        return _obey(options)
    except EmbeddedPostgresError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED


def _obey(options: argparse.Namespace) -> int:
    folder: Path = options.data_dir
    match options.verb:
        case "start":
            told = ensure(folder, database=options.database, timeout=options.timeout)
        case "stop":
            stopped = stop(folder, timeout=options.timeout)
            told = "stopped" if stopped else "was not running"
        case "url":
            told = url(folder, database=options.database)
        case _:
            seen = status(folder)
            if seen.pid is None:
                sys.stdout.write(f"not running; database in {seen.cluster or folder}\n")
                return NOT_RUNNING
            told = f"running as process {seen.pid}; database in {seen.cluster}"
    sys.stdout.write(f"{told}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m project.embedded_postgres",
        description="The PostgreSQL of the demo: a private server without a port.",
        epilog="Exit codes: 0 done or running, 1 failed, 2 wrong usage, 3 not running.",
    )
    parser.add_argument(
        "verb",
        choices=["start", "stop", "status", "url"],
        help="start or find the server and print its DATABASE_URL; stop it; tell "
        "whether it runs and where its files lie; print the DATABASE_URL only",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=DATA_DIR,
        metavar="FOLDER",
        help="where the database lies (default: %(default)s)",
    )
    parser.add_argument(
        "--database",
        default=DATABASE,
        metavar="NAME",
        help="made if there is none of that name (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60,
        metavar="SECONDS",
        help="how long to wait (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
