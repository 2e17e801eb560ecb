"""`manage.py buildqueue`: look into the queue and act on a job, from a shell.

Exit codes: 0 done, 1 refused, not found or no database fit for it, 2 wrong usage,
130 ended by Ctrl-C.
"""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError

from ...exceptions import InvalidTransition, Refused
from ...models import BuildJob
from ...queue.outcomes import Actor
from ...queue.verbs import VERBS
from ...states import JobStatus
from ...worker import preflight
from .. import jobs_text
from ..jobs_text import find_job

# What the operator types -> the verb of the engine.
ACTIONS = {
    "cancel": ("cancel", "Stop an open job for good; its process is ended."),
    "retry": ("retry", "Run a failed or cancelled job again."),
    "release": ("release", "Take a running job from its worker; it runs again."),
    "fail": ("force_fail", "Declare an open job failed; its process is ended."),
}

EXPECTED = (preflight.CannotWork, jobs_text.NoSuchJob, InvalidTransition, Refused)
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it


class Command(BaseCommand):
    """Lists and shows jobs, follows their logs, and acts on them."""

    help = (
        "Looks into the queue and acts on jobs; each act is recorded with its reason."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take one sub-command with its options."""
        commands = parser.add_subparsers(dest="do", required=True, metavar="COMMAND")
        listing = commands.add_parser("list", help="List jobs, the newest first.")
        listing.add_argument(
            "--status", choices=JobStatus.values, help="Only jobs in this status."
        )
        listing.add_argument("--kind", help="Only jobs of this kind.")
        listing.add_argument("--queue", help="Only jobs of this queue.")
        listing.add_argument(
            "--limit", type=_count, default=20, help="How many, at least 1 (20)."
        )
        listing.add_argument("--json", action="store_true", help="One object a line.")
        show = commands.add_parser("show", help="Show a job: runs, steps, timeline.")
        show.add_argument("job", help="The job's id, or its first letters.")
        show.add_argument("--json", action="store_true", help="As one JSON object.")
        log = commands.add_parser("logs", help="Print a job's log.")
        log.add_argument("job", help="The job's id, or its first letters.")
        log.add_argument(
            "-f", "--follow", action="store_true", help="Go on until the job ends."
        )
        log.add_argument("--since", default="0.0", help="After this position.")
        for name, (_verb, text) in ACTIONS.items():
            act = commands.add_parser(name, help=text)
            act.add_argument("job", help="The job's id, or its first letters.")
            act.add_argument("--reason", default="", help="Why; kept in the timeline.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked, and say why when it cannot be done."""
        try:
            preflight.check()
            for line in self._lines(options["do"], options):
                self.stdout.write(line)
                self.stdout.flush()
        except EXPECTED as error:
            raise CommandError(str(error)) from None
        except (OperationalError, InterfaceError) as error:
            raise CommandError(f"the database went away: {error}") from None
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def _lines(self, do: str, options: dict[str, Any]) -> Iterable[str]:
        if do == "list":
            return jobs_text.listing(options)
        job = find_job(options["job"])
        if do == "show":
            return jobs_text.details(job, options["json"])
        if do == "logs":
            return jobs_text.log_lines(job, options["since"], options["follow"])
        return self._act(job, ACTIONS[do][0], options["reason"])

    def _act(self, job: BuildJob, verb: str, reason: str) -> list[str]:
        actor = Actor(label=f"{getpass.getuser()} (command line)")
        changed = VERBS[verb][0](job.pk, actor=actor, reason=reason)
        return [f"{changed.pk} is {changed.status}"]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)
