"""`manage.py buildqueue`: look into the queue and act on a job, from a shell.

Exit codes: 0 done, 1 refused or not found, 2 wrong usage.
"""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...exceptions import InvalidTransition, Refused
from ...queue.outcomes import Actor
from ...queue.verbs import VERBS
from ...states import JobStatus
from .. import jobs_text
from ..jobs_text import find_job

# What the operator types -> the verb of the engine.
ACTIONS = {
    "cancel": ("cancel", "Stop an open job for good; its process is ended."),
    "retry": ("retry", "Run a failed or cancelled job again."),
    "release": ("release", "Take a running job from its worker; it runs again."),
    "fail": ("force_fail", "Declare an open job failed; its process is ended."),
}


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
        listing.add_argument("--limit", type=int, default=20, help="How many (20).")
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
        """Do what was asked."""
        do = options["do"]
        lines: Iterable[str]
        try:
            if do == "list":
                lines = jobs_text.listing(options)
            elif do == "show":
                lines = jobs_text.details(find_job(options["job"]), options["json"])
            elif do == "logs":
                lines = jobs_text.log_lines(
                    find_job(options["job"]), options["since"], options["follow"]
                )
            else:
                lines = self._act(ACTIONS[do][0], options)
            for line in lines:
                self.stdout.write(line)
                self.stdout.flush()
        except (jobs_text.NoSuchJob, InvalidTransition, Refused) as error:
            raise CommandError(str(error)) from None

    def _act(self, verb: str, options: dict[str, Any]) -> list[str]:
        job = find_job(options["job"])
        actor = Actor(label=f"{getpass.getuser()} (command line)")
        changed = VERBS[verb][0](job.pk, actor=actor, reason=options["reason"])
        return [f"{changed.pk} is {changed.status}"]
