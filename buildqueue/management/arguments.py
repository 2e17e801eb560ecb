"""Which sub-commands has `manage.py buildqueue`, and what does each take?"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from ..states import ActionStatus, JobStatus
from . import nouns, typed

# What the operator types -> the verb of the engine.
ACTS = {
    "cancel": ("cancel", "Stop an open job for good; its process is ended."),
    "release": ("release", "Take a running job from its worker; it runs again."),
    "fail": ("force_fail", "Declare an open job failed; its process is ended."),
    "pause": ("pause", "Hold an open job back; its finished steps are kept."),
    "resume": ("resume", "Let a paused job go on where it was."),
}
JOB = "The job's id, or its first letters."
ACTION = "The action's id, or its first letters."


def add(parser: ArgumentParser) -> None:
    """Give the parser the sub-commands."""
    commands = parser.add_subparsers(dest="do", required=True, metavar="COMMAND")
    _looking(commands)
    _acting(commands)
    _deciding(commands)
    nouns.add(commands)


def _looking(commands: Any) -> None:
    listing = commands.add_parser("list", help="List jobs, the newest first.")
    listing.add_argument(
        "--status", choices=JobStatus.values, help="Only jobs in this status."
    )
    listing.add_argument("--kind", type=typed.words, help="Only jobs of this kind.")
    listing.add_argument("--queue", type=typed.words, help="Only jobs of this queue.")
    listing.add_argument(
        "--code",
        type=typed.words,
        help="Only jobs with this error, such as max_attempts_exhausted, or whose last "
        "run had it when their tries were used up, such as out_of_memory.",
    )
    _limited(listing)
    show = commands.add_parser(
        "show", help="Show a job: question, actions, progress, runs, timeline."
    )
    show.add_argument("job", help=JOB)
    show.add_argument("--json", action="store_true", help="As one JSON object.")
    log = commands.add_parser("logs", help="Print a job's log.")
    log.add_argument("job", help=JOB)
    log.add_argument(
        "-f", "--follow", action="store_true", help="Go on until the job ends."
    )
    log.add_argument("--since", default="0.0", help="After this position.")
    actions = commands.add_parser(
        "actions", help="List what jobs want to do outside, or one of them."
    )
    actions.add_argument("job", nargs="?", help=JOB)
    actions.add_argument(
        "--status", choices=ActionStatus.values, help="Only actions in this status."
    )
    _limited(actions)
    notices = commands.add_parser(
        "notices", help="List what was told to the outside, or have one sent again."
    )
    notices.add_argument(
        "--failed", action="store_true", help="Only those that were given up."
    )
    notices.add_argument(
        "--resend",
        metavar="NOTICE",
        help="Have this one sent again, with the same id: its id, or its first letters.",
    )
    _reason(notices)
    _limited(notices)


def _limited(command: ArgumentParser) -> None:
    command.add_argument(
        "--limit", type=typed.count, default=20, help="How many, at least 1 (20)."
    )
    command.add_argument("--json", action="store_true", help="One object a line.")


def _acting(commands: Any) -> None:
    for name, (_verb, text) in ACTS.items():
        act = commands.add_parser(name, help=text)
        act.add_argument("job", help=JOB)
        _reason(act)
    retry = commands.add_parser("retry", help="Run failed or cancelled jobs again.")
    retry.add_argument("jobs", nargs="+", metavar="job", help=JOB)
    _reason(retry)
    priority = commands.add_parser("priority", help="Make a job more or less urgent.")
    priority.add_argument("job", help=JOB)
    priority.add_argument("priority", type=int, help="-100 to 100; higher is sooner.")
    _reason(priority)
    due = commands.add_parser("due", help="Have a job start at another time.")
    due.add_argument("job", help=JOB)
    due.add_argument("when", type=typed.moment, help=f"{typed.WHEN}.")
    _reason(due)
    answer = commands.add_parser(
        "answer", help="Answer what a job asks; without a field: show the question."
    )
    answer.add_argument("job", help=JOB)
    answer.add_argument(
        "fields", nargs="*", type=typed.pair, metavar="field=value", help="The answer."
    )
    _reason(answer)


def _deciding(commands: Any) -> None:
    approve = commands.add_parser("approve", help="Let an action be done.")
    approve.add_argument("action", help=ACTION)
    approve.add_argument(
        "--hash",
        type=typed.beginning,
        help="The hash of the content that you have seen, or its first 8 characters.",
    )
    approve.add_argument("--yes", action="store_true", help="Ask nothing.")
    _reason(approve)
    deny = commands.add_parser("deny", help="Have an action not be done.")
    deny.add_argument("action", help=ACTION)
    _reason(deny, required=True)
    settle = commands.add_parser(
        "settle", help="Say what really became of an action of unknown outcome."
    )
    settle.add_argument("action", help=ACTION)
    what = settle.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--happened", action="store_true", dest="happened", help="It was done."
    )
    what.add_argument(
        "--did-not-happen", action="store_false", dest="happened", help="It was not."
    )
    _reason(settle, required=True)


def _reason(command: ArgumentParser, *, required: bool = False) -> None:
    command.add_argument(
        "--reason", default="", required=required, help="Why; kept in the timeline."
    )
