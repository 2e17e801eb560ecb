"""`manage.py runworker`: parse, look whether the database is fit, work."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ... import conf
from ...queue import handlers
from ...worker import preflight, telling
from ...worker.nursery import CannotPreload
from ...worker.options import WorkerOptions
from ...worker.stopping import leaving_on_term
from ...worker.supervisor import Supervisor


class Command(BaseCommand):
    """Runs jobs until told to stop."""

    help = (
        "Runs jobs, each in a process of its own, until told to stop. TERM or Ctrl-C "
        "lets the running jobs finish; a second one hands them back at once."
    )
    requires_system_checks = ["buildqueue"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the worker's choices; what is not given comes from the settings."""
        now = conf.get()
        add = parser.add_argument
        add("--queues", default="", help="Comma-separated names; all when left out.")
        add("--slots", type=int, default=now.slots, help="How many jobs run at once.")
        add("--poll-interval", type=float, help="Seconds between two looks for jobs.")
        add("--max-jobs", type=int, help="Stop after starting this many jobs.")
        add("--burst", action="store_true", help="Stop when no job is due.")
        add(
            "--drain",
            type=_seconds_or_none,
            default=now.drain_seconds,
            metavar="SECONDS",
            help="What running jobs get at a stop; `none` waits until they are done.",
        )
        add("--no-duties", action="store_true", help="No rescue and maintenance.")
        add("--show-output", action="store_true", help="Print what the jobs print.")
        add("--ready-file", type=Path, help="A file that is there while it takes jobs.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Work; the exit code is 0 after an orderly stop."""
        queues = tuple(filter(None, map(str.strip, options["queues"].split(","))))
        chosen = WorkerOptions(
            queues=queues,
            slots=options["slots"],
            poll_seconds=options["poll_interval"],
            max_jobs=options["max_jobs"],
            burst=options["burst"],
            duties=not options["no_duties"],
            drain_seconds=options["drain"],
            show_output=options["show_output"],
            ready_file=options["ready_file"],
        )
        if faults := chosen.faults():
            raise CommandError("\n".join(faults))
        try:
            with leaving_on_term():
                preflight.check()
                self._introduce(chosen)
                code = Supervisor(chosen).run()
        except (preflight.CannotWork, CannotPreload) as error:
            raise CommandError(str(error)) from None
        if code:
            sys.exit(code)

    def _introduce(self, chosen: WorkerOptions) -> None:
        telling.log_to_stderr()
        queues = ", ".join(chosen.queues) or "all queues"
        kinds = ", ".join(handlers.kinds()) or "none; is there a jobs.py?"
        self.stdout.write(f"buildqueue worker: {queues}, {chosen.slots} slots")
        self.stdout.write(f"kinds: {kinds}")
        self.stdout.write("stop with Ctrl-C; press it twice to stop at once")
        self.stdout.flush()


def _seconds_or_none(text: str) -> float | None:
    return None if text.lower() == "none" else float(text)
