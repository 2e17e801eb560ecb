"""How do a source and its requirements get into a bundle's folder?

All that runs for it (venv, pip, the build code of packages) runs confined as a builder
of its own, as untrusted as the agent. When it is over, whatever that builder left
running is ended, and only then does the tree change hands: the agent may read it, not
change it.
"""

from __future__ import annotations

import re
import signal
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buildqueue.backends.base import LineCallback
from buildqueue.backends.confinement import Confinement
from buildqueue.backends.localplan import LocalPlan
from buildqueue.backends.packageindexes import index_paths
from buildqueue.backends.processes import run_command
from buildqueue.backends.trees import copy_tree, remove_tree
from buildqueue.exceptions import Rejected, Unavailable

_PIP_OPTIONS = (
    *("--no-input", "--no-cache-dir", "--disable-pip-version-check"),
    *("--progress-bar", "off"),
)
_NETWORK_TROUBLE = re.compile(
    r"NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|"
    r"RemoteDisconnected|Failed to establish a new connection|Max retries exceeded|"
    r"Temporary failure in name resolution|Name or service not known|"
    r"Network is unreachable|Connection (?:refused|reset|aborted|timed out)|"
    r"HTTP error 5\d\d|5\d\d (?:Server Error|Service Unavailable)"
)
_MEMORY_TROUBLE = re.compile(
    r"^MemoryError\b|\bexit code: -9$|Killed signal terminated program|"
    r"virtual memory exhausted|Cannot allocate memory|std::bad_alloc"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One installation into a bundle's folder."""

    confinement: Confinement
    index: dict[str, str]
    pip_options: tuple[str, ...]
    folder: Path
    target_id: str
    deadline: float
    on_line: LineCallback

    @property
    def builder_id(self) -> str:
        """Return the workload id of the build."""
        # Not the agent's own user: what runs during the build must not reach what runs.
        # The whole path, because strays are ended by user: not another root's build.
        return f"build:{self.folder.parent}"

    def install(self, plan: LocalPlan, source: Path) -> None:
        """Fill the folder, which must not exist. On failure the caller removes it."""
        for note in plan.notes:
            self.on_line(f"note: {note}")
        self.confinement.end_strays(self.builder_id)
        self.folder.mkdir()
        self.folder.chmod(0o711)
        copy_tree(source, self.folder / "app")
        for name in ("venv", "scratch"):
            (self.folder / name).mkdir()
        for name in ("app", "venv", "scratch"):
            self.confinement.grant_write(self.folder / name, self.builder_id)
        try:
            self._make_environment(with_pip=bool(plan.requirements))
            if plan.requirements:
                self._install_requirements(plan.requirements)
        finally:
            self.confinement.end_strays(self.builder_id)
        remove_tree(self.folder / "scratch")
        self.confinement.grant_read(self.folder, self.target_id)

    def _make_environment(self, *, with_pip: bool) -> None:
        self.on_line("making a virtual environment")
        argv = [str(self.confinement.python), "-I", "-m", "venv"]
        options = [] if with_pip else ["--without-pip"]
        code, lines = self._run([*argv, *options, str(self.folder / "venv")])
        if code:
            raise Unavailable(
                "environment_not_created",
                "a virtual environment could not be made (is python3-venv installed?): "
                + _last_useful(lines),
                exit_code=code,
            )

    def _install_requirements(self, files: Sequence[str]) -> None:
        self.on_line(f"installing {', '.join(files)}")
        python = self.folder / "venv/bin/python"
        named = [word for file in files for word in ("-r", file)]
        code, lines = self._run(
            [
                str(python),
                "-I",
                "-m",
                "pip",
                "install",
                *_PIP_OPTIONS,
                *self.pip_options,
                *named,
            ]
        )
        if not code:
            return
        reason = _last_useful(lines) if code > 0 else f"ended by signal {-code}"
        if _lacked_memory(code, lines):
            raise Rejected(
                "out_of_memory",
                f"memory ran out while {', '.join(files)} were installed: {reason}; "
                "choose ready-built or fewer packages, or give the host more memory",
                exit_code=code,
            )
        if any(_NETWORK_TROUBLE.search(line) for line in lines):
            raise Unavailable("package_index_unreachable", reason, exit_code=code)
        raise Rejected(
            "dependency_failed",
            f"pip could not install {', '.join(files)}: {reason}",
            exit_code=code,
        )

    def _run(self, argv: Sequence[str]) -> tuple[int, list[str]]:
        lines: deque[str] = deque(maxlen=500)

        def keep(line: str) -> None:
            lines.append(line)
            self.on_line(line)

        plan = self.confinement.command(
            argv,
            workload_id=self.builder_id,
            cwd=self.folder / "app",
            # Wide, so that no secret is broken in two by a line that pip wraps.
            env={"COLUMNS": "10000", **self.index},
            readable=index_paths(self.index),
            # The first is HOME and TMPDIR.
            writable=[self.folder / name for name in ("scratch", "app", "venv")],
        )
        left = self.deadline - time.monotonic()
        try:
            return run_command(plan, keep, timeout_seconds=max(left, 0.0)), [*lines]
        except Unavailable as error:
            if error.code != "command_timed_out":
                raise
            raise Rejected(
                "build_timed_out", "the build took longer than it may"
            ) from error


def _lacked_memory(code: int, lines: Sequence[str]) -> bool:
    """Tell whether the kernel ended the command, or a compiler below it, for memory.

    Nobody else sends KILL: a build that takes too long is told in another way.
    """
    return code == -signal.SIGKILL or any(
        _MEMORY_TROUBLE.search(each) for each in lines
    )


def _last_useful(lines: Sequence[str]) -> str:
    spoken = [line.strip() for line in lines if line.strip()]
    errors = [line for line in spoken if line.startswith(("ERROR:", "error:"))]
    return (errors or spoken or ["it said nothing"])[-1]
