"""Which options have several verbs of the build system? Each is added the same way.

A value of a secret is never one of them: every user of the machine can read the
arguments of a process.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from typing import Any

from .. import typed

AGENT = "The agent: owner/name, its name when it is the only one, or its id."
OWNER = "Whose: a user's name or key; key:KEY for another system's."

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def verb(verbs: Any, name: str, text: str) -> ArgumentParser:
    """Add a verb; each can answer a program."""
    made: ArgumentParser = verbs.add_parser(name, help=text, description=text)
    made.add_argument("--json", action="store_true", help="As one JSON document.")
    return made


def agent(command: ArgumentParser) -> None:
    """Take the agent that it is about."""
    command.add_argument("agent", help=AGENT)


def owner(command: ArgumentParser, *, required: bool) -> None:
    """Take an owner."""
    command.add_argument("--owner", required=required, help=OWNER)


def limited(command: ArgumentParser) -> None:
    """Take how many rows are shown."""
    command.add_argument(
        "--limit", type=typed.count, default=20, help="How many, at least 1 (20)."
    )


def reason(command: ArgumentParser) -> None:
    """Take why it is done."""
    command.add_argument("--reason", default="", help="Why; kept with what it does.")


def waiting(command: ArgumentParser) -> None:
    """Take whether the job's end is waited for."""
    command.add_argument(
        "--wait",
        action="store_true",
        help="Print the job's log until it ends; exit with 1 unless it went well.",
    )


def sure(command: ArgumentParser) -> None:
    """Take that nothing is to be asked."""
    command.add_argument("--yes", action="store_true", help="Ask nothing.")


def repository(command: ArgumentParser, *, required: bool = False) -> None:
    """Take a repository, and how it is opened."""
    command.add_argument(
        "--git", required=required, metavar="URL", help="The repository's address."
    )
    command.add_argument("--ref", help="A branch or a tag; else the default branch.")
    command.add_argument("--commit", help="This commit, by its whole hash.")
    command.add_argument(
        "--secret",
        metavar="NAME",
        help="The owner's secret that holds the token of a private repository.",
    )
    token = command.add_mutually_exclusive_group()
    token.add_argument(
        "--token-stdin",
        action="store_true",
        help="Read a token for this build from the standard input.",
    )
    token.add_argument(
        "--token-env",
        type=variable,
        metavar="NAME",
        help="Take a token for this build from the command's own environment.",
    )


def environment(command: ArgumentParser) -> None:
    """Take variables for the process, without their values."""
    command.add_argument(
        "--env-file",
        dest="env_files",
        action="append",
        metavar="FILE",
        help="Variables from a file of NAME=value lines; may be repeated.",
    )
    command.add_argument(
        "--env",
        dest="env_names",
        action="append",
        type=variable,
        metavar="NAME",
        help="This variable of the command's own environment; may be repeated.",
    )


def limits(command: ArgumentParser) -> None:
    """Take what the instances should be like."""
    command.add_argument(
        "--port",
        dest="ports",
        action="append",
        type=int,
        metavar="PORT",
        help="A port that it listens on; may be repeated.",
    )
    command.add_argument("--replicas", type=int, help="How many copies of it run.")
    command.add_argument("--memory-mb", type=int, help="Memory of each copy, in MiB.")
    command.add_argument("--cpus", type=float, help="Processors of each copy.")
    command.add_argument(
        "--processes", type=int, help="Processes and threads of each copy."
    )
    command.add_argument(
        "--writable",
        action=BooleanOptionalAction,
        default=None,
        help="Whether it has a folder that outlives its versions.",
    )
    command.add_argument(
        "--writable-path", metavar="PATH", help="Where it sees that folder."
    )


def version(command: ArgumentParser, text: str) -> None:
    """Take a version, and what is new in it."""
    command.add_argument("--version", type=typed.words, help=text)
    command.add_argument("--changelog", type=typed.words, help="What is new in it.")


def variable(text: str) -> str:
    """Return the name of a variable; a value beside it is refused, and not repeated."""
    if "=" in text:
        raise ArgumentTypeError(
            "name the variable only: a value given here can be read by every user of "
            "this machine, so set it before (or put it in a file)"
        )
    if not _NAME.fullmatch(text):
        raise ArgumentTypeError(
            "must be the name of a variable: letters, digits and _, no digit first"
        )
    return text
