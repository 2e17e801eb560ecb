"""`python -m tests.chaos --minutes 10 --seed 1`: do the promises hold while all dies?

Exit code 0: every check passed, and every class of fault was struck often enough. 1: not
so; then the folder with the workers' logs and the database stays, and is named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from .server import Server


def main(arguments: list[str]) -> int:
    """Run, print, return the exit code."""
    options = _parser().parse_args(arguments)
    seed = random.randrange(10_000) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="bq-chaos-", dir="/var/tmp")).resolve()
    folder.chmod(0o755)  # the server may run under another account
    server = Server(folder / "pg")
    fence = "" if options.fenced else ", without the fence"
    print(
        f"chaos for {options.minutes:g} min, seed {seed}{fence}: {folder}", flush=True
    )
    well = False
    try:
        server.prepare()
        well = _run(options, server, folder, seed)
    finally:
        server.stop_fast()
        if well or options.discard:
            shutil.rmtree(folder, ignore_errors=True)
    print(
        "all is well"
        if well
        else "NOT well" + ("" if options.discard else f": {folder}")
    )
    return 0 if well else 1


def _run(options: argparse.Namespace, server: Server, folder: Path, seed: int) -> bool:
    overrides = {
        "DATABASES": {"default": server.settings},
        "INSTALLED_APPS": ["tests.chaos"],
    }
    os.environ["BUILDQUEUE_TEST_OVERRIDES"] = json.dumps(overrides)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    from .run import ChaosRun

    return ChaosRun(
        server=server,
        folder=folder,
        minutes=options.minutes,
        seed=seed,
        fenced=options.fenced,
    ).go()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=10.0, help="How long faults are struck.")
    add("--seed", type=int, help="Of the jobs, the faults and the people; else drawn.")
    add(
        "--without-fence",
        dest="fenced",
        action="store_false",
        help="Take the fence out of the workers: the run must fail.",
    )
    add("--discard", action="store_true", help="Keep nothing of a run that failed.")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
