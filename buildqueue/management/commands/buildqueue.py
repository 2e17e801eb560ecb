"""`manage.py buildqueue`: look into the queue and act on a job, from a shell.

Exit codes: 0 done, 1 refused, not found, not confirmed or no database fit for it (of
several jobs: one was refused), 2 wrong usage, 130 ended by Ctrl-C, 141 when nobody
reads on.
"""

from __future__ import annotations

import getpass
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError

from ...exceptions import BackendError, InvalidTransition, Refused
from ...queue import logs
from ...queue.outcomes import Actor
from ...worker import preflight
from .. import (
    acting,
    arguments,
    deciding,
    jobs_text,
    logs_text,
    notices_text,
    nouns,
    work_text,
)
from ..finding import NotFound, find_action, find_job

EXPECTED = (
    preflight.CannotWork,
    NotFound,
    InvalidTransition,
    Refused,
    acting.SomeRefused,
    deciding.NotConfirmed,
    BackendError,
    *nouns.EXPECTED,
)
WRONG_USAGE = 2
# 128 and the number of SIGINT or SIGPIPE, as shells have it.
INTERRUPTED, UNREAD = 130, 141


class Command(BaseCommand):
    """Lists and shows jobs, follows their logs, and acts on them."""

    help = (
        "Looks into the queue and acts on jobs; each act is recorded with its reason."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take one sub-command with its options."""
        arguments.add(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked, and say why when it cannot be done."""
        try:
            preflight.check()
            for line in self._lines(options["do"], options):
                self.stdout.write(logs.for_terminal(line))
                self.stdout.flush()
        except deciding.MustBeTold as error:
            raise CommandError(str(error), returncode=WRONG_USAGE) from None
        except EXPECTED as error:
            told = logs.for_terminal(acting.way_out(error))
            raise CommandError(told) from None
        except (OperationalError, InterfaceError) as error:
            raise CommandError(f"the database went away: {error}") from None
        except BrokenPipeError:  # such as of `| head`: it has all that it wanted
            _forget_output()
            sys.exit(UNREAD)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def _lines(self, do: str, options: dict[str, Any]) -> Iterable[str]:
        actor = Actor(label=f"{getpass.getuser()} (command line)")
        if do in nouns.NOUNS:
            return nouns.lines(do, options, actor)
        return self._of_jobs(do, options, actor)

    def _of_jobs(self, do: str, options: dict[str, Any], actor: Actor) -> Iterable[str]:
        match do:
            case "list":
                return jobs_text.listing(options)
            case "actions":
                job = find_job(options["job"]) if options["job"] else None
                return work_text.listing(job, options)
            case "notices":
                return notices_text.notices(options, actor)
            case "retry":
                return acting.retry(options["jobs"], actor, options["reason"])
            case "approve" | "deny" | "settle":
                return deciding.decide(
                    do, find_action(options["action"]), actor, options
                )
        job = find_job(options["job"])
        match do:
            case "show":
                return jobs_text.details(job, options["json"])
            case "logs":
                return logs_text.lines(job, options["since"], options["follow"])
        return acting.act(do, job, actor, options)


def _forget_output() -> None:
    """Have what is still buffered go nowhere: flushed at the end it would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
