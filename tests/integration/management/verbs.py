"""Which verbs has the command, and what does each take? Read from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from buildqueue.management.commands.buildqueue import Command
from buildqueue.management.nouns import NOUNS

Parsers = dict[tuple[str, str], argparse.ArgumentParser]


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a parser's sub-commands by name."""
    [found] = (
        each for each in parser._actions if isinstance(each, argparse._SubParsersAction)
    )
    return dict(found.choices)


def all_verbs() -> Parsers:
    """Return the parsers of the verbs, by noun and verb."""
    commands = subcommands(Command().create_parser("manage.py", "buildqueue"))
    return {
        (noun, verb): parser
        for noun in NOUNS
        for verb, parser in subcommands(commands[noun]).items()
    }


def arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield what a verb takes, but for --help."""
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            yield action
