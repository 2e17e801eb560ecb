"""How does git run so that it ends, within its limits, and tells nobody the token?

As a process group that ends with the call, in a clean environment, with what it may
write and hold bounded. All commands of one fetch share one deadline. What git prints is
masked before anybody sees it, and becomes an error with a code when it fails.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from buildqueue.backends.base import LineCallback
from buildqueue.backends.gitaddress import GitAccess, GitLimits
from buildqueue.backends.gitenvironment import (
    as_environment,
    authorization,
    environment,
    secret_forms,
    settings,
)
from buildqueue.backends.gitfaults import fault_of
from buildqueue.backends.interpreters import base_python
from buildqueue.backends.launching import LaunchPlan, Limits, with_prelude
from buildqueue.backends.processes import run_command, stream_command
from buildqueue.exceptions import Rejected, Unavailable

MIB = 1024 * 1024
MEMORY_BYTES = 2048 * MIB
_MAX_TOLD_BYTES = MIB
_WATCH_SECONDS = 0.25
# Nobody can put a repository there, so git finds none where it should not look.
_NOWHERE = "/proc"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds(Limits):
    """What one process of git may take."""

    file_bytes: int

    def settings(self) -> list[tuple[int, int, int]]:
        return [
            *Limits.settings(self),
            (resource.RLIMIT_FSIZE, self.file_bytes, self.file_bytes),
            (resource.RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES),
        ]


@dataclass(kw_only=True)
class Git:
    """git for one address: every command ends before the same deadline."""

    url: str  # as check_url returned it
    token: str | None
    access: GitAccess
    limits: GitLimits
    on_line: LineCallback
    cancelled: Callable[[], bool]
    repository: Path | None = None
    _deadline: float = field(init=False)
    _looked_at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.limits.timeout_seconds

    def ask_server(self, *arguments: str) -> list[str]:
        """Run a command that speaks with the server; return the lines it printed."""
        return self._run(arguments, authorization(self.url, self.token))

    def ask(self, *arguments: str) -> list[str]:
        """Run a command that has no business on the network; it sees no token."""
        return self._run(arguments, {})

    def stream(
        self,
        *arguments: str,
        on_chunk: Callable[[bytes], None],
        stdin: int | IO[bytes] = subprocess.DEVNULL,
    ) -> None:
        """Run a command whose output is not lines, without the network."""
        with self._in_time() as seconds:
            code = stream_command(
                self._plan(arguments, {}),
                on_chunk,
                timeout_seconds=seconds,
                cancelled=self.is_over,
                stdin=stdin,
                stderr=subprocess.DEVNULL,
            )
        if code != 0:
            raise Rejected(
                "git_tree_refused",
                f"git cannot read what the repository holds ({arguments[0]} ended "
                f"with {code}); `git fsck` tells what is damaged",
                exit_code=code,
            )

    def mask(self, text: str) -> str:
        """Return the text without the token, in whatever form it was sent."""
        for secret in secret_forms(self.url, self.token):
            text = text.replace(secret, "***")
        return text

    def is_over(self) -> bool:
        """Tell whether somebody asked to stop; refuse what has grown too large.

        Called with every piece of output, it looks only a few times a second.
        """
        now = time.monotonic()
        if now < self._looked_at + _WATCH_SECONDS:
            return False
        self._looked_at = now
        self.refuse_size()
        return self.cancelled()

    def refuse_size(self) -> None:
        """Refuse a repository that takes more room than it may."""
        # A quarter more than the pack: its index, and what git keeps for itself.
        most = self.limits.max_bytes * 5 // 4 + MIB
        if self.repository is not None and _size_of(self.repository) > most:
            raise Rejected(
                "git_too_large",
                f"the repository takes more than {self.limits.max_bytes} bytes; "
                "take large files out of it, or ask the operator about GIT_MAX_BYTES",
            )

    def _run(self, arguments: tuple[str, ...], extra: Mapping[str, str]) -> list[str]:
        lines: list[str] = []
        with self._in_time() as seconds:
            code = run_command(
                self._plan(arguments, extra),
                lines.append,
                timeout_seconds=seconds,
                cancelled=self.is_over,
                max_output_bytes=_MAX_TOLD_BYTES,
            )
        if code == 0:
            return lines
        for line in lines[-20:]:
            self.on_line(self.mask(line))
        raise fault_of(lines, code, self.mask)

    def _plan(self, arguments: tuple[str, ...], extra: Mapping[str, str]) -> LaunchPlan:
        program = find_git()
        env = environment(program, access=self.access, repository=self.repository)
        bounds = _Bounds(file_bytes=self.limits.max_bytes)
        return LaunchPlan(
            name="git",
            argv=with_prelude(
                base_python(),
                [program, *arguments],
                limits=bounds,
                no_new_privs=True,
                ignore=[signal.SIGXFSZ],  # then git says what it could not write
            ),
            env=env | as_environment(settings(self.limits) | dict(extra)),
            cwd=_NOWHERE,
        )

    @contextmanager
    def _in_time(self) -> Iterator[float]:
        """Give the seconds that are left, and say for what they were not enough."""
        try:
            yield max(self._deadline - time.monotonic(), 0.01)
        except Unavailable as error:
            if error.code != "command_timed_out":
                raise
            raise Unavailable(
                "git_timed_out",
                f"{self.url} was not fetched within {self.limits.timeout_seconds:g} "
                "seconds; it is tried again",
            ) from error


def find_git() -> str:
    """Return the program, or raise Unavailable (`git_missing`)."""
    found = shutil.which("git")
    if found is None:
        raise Unavailable(
            "git_missing",
            "git is not installed on this host; the operator installs it, or lets "
            "such builds run on a host that has it",
        )
    return os.path.abspath(found)


def _size_of(folder: Path) -> int:
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(at, name)).st_size
            except FileNotFoundError:  # git renames what it writes
                continue
    return total
