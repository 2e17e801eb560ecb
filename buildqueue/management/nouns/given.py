"""What was given with a command besides its words? Archives, secrets, variables, limits.

A secret never comes as an argument, since every user of the machine can read those: it
is read from the standard input, from the command's own environment, or from a file.
"""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ...backends.packing import pack_tree
from ...builds.payloads import Spec
from ...builds.submission import GitRequest
from ...builds.submission.wishes import spec_of
from ...exceptions import BuildQueueError
from ..deciding import MustBeTold
from . import dotenv

STDIN = "-"
MOST_SECRET = 64 * 1024
SPEC = "ports replicas memory_mb cpus processes writable writable_path"


class BadSource(BuildQueueError):
    """What was named as a source cannot be read; nothing was done."""


@contextmanager
def source(path: str) -> Iterator[BinaryIO]:
    """Yield an archive, a folder packed as one, or for `-` the standard input."""
    if path == STDIN:
        if sys.stdin.isatty():
            raise MustBeTold("nothing is sent: have `-` read from a pipe or a file")
        yield sys.stdin.buffer
        return
    try:
        place = Path(path)
        if place.is_dir():
            with _packed(place) as stream:
                yield stream
            return
        stream = place.open("rb")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadSource(f"{path} cannot be read: {why}") from None
    with stream:
        yield stream


@contextmanager
def _packed(folder: Path) -> Iterator[BinaryIO]:
    with tempfile.TemporaryDirectory(prefix="buildqueue-pack-") as made:
        file = Path(made) / "source.tar.gz"
        pack_tree(folder, file)
        with file.open("rb") as stream:
            yield stream


def git(options: Mapping[str, Any]) -> GitRequest | None:
    """Return the repository that was named; None without one."""
    token = _token(options)
    if options["git"] is None:
        if token or any(options[name] for name in ("ref", "commit", "secret")):
            raise MustBeTold("--ref, --commit, --secret and --token-… go with --git")
        return None
    if token and options["secret"]:
        raise MustBeTold("give a token or name a secret of the owner's, not both")
    return GitRequest(
        url=options["git"],
        ref=options["ref"],
        commit=options["commit"],
        token=token,
        secret=options["secret"],
    )


def _token(options: Mapping[str, Any]) -> str | None:
    if options["token_env"]:
        return variable(options["token_env"])
    if not options["token_stdin"]:
        return None
    if options.get("source") == STDIN:
        raise MustBeTold("the standard input holds the source: take --token-env")
    return typed_secret("Token: ")


def typed_secret(prompt: str) -> str:
    """Return what is piped in, or typed unseen, without the end of its last line."""
    if sys.stdin.isatty():
        return getpass.getpass(prompt)
    text = sys.stdin.read(MOST_SECRET + 1)
    if len(text) > MOST_SECRET:
        raise MustBeTold(f"a secret has at most {MOST_SECRET} characters")
    return text.removesuffix("\n").removesuffix("\r")


def variable(name: str) -> str:
    """Return a variable of the command's own environment."""
    if name not in os.environ:
        raise MustBeTold(f"the environment of this command has no variable {name}")
    return os.environ[name]


def environment(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables for the agent: of the files, then of the command's own."""
    found: dict[str, str] = {}
    for path in options["env_files"] or ():
        found |= dotenv.read(path)
    return found | {name: variable(name) for name in options["env_names"] or ()}


def spec(options: Mapping[str, Any]) -> Spec:
    """Return what the instances should be like; what was not given stays as it was."""
    names = SPEC.split()
    return spec_of({name: options[name] for name in names if options[name] is not None})
