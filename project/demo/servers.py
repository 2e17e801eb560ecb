"""How are web server and worker started, and surely stopped again?

Each in a session of its own, so that Ctrl-C reaches only the demo, which stops them in
order. If the demo is killed, the kernel ends both.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
from pathlib import Path
from types import TracebackType
from typing import Self

from buildqueue.worker import linux

from .client import OPENER

BASE_DIR = Path(__file__).resolve().parent.parent.parent


class Servers:
    """gunicorn and `runworker`, while the block lasts."""

    def __init__(self, port: int, logs: Path) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self._port, self._logs = port, logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._logs.chmod(0o700)  # also of an earlier start: agents run on this host
        python = sys.executable
        config = str(BASE_DIR / "project" / "gunicorn_conf.py")
        web = [python, "-m", "gunicorn", "-c", config, "project.wsgi"]
        self._start("web", web, WEB_BIND=f"127.0.0.1:{self._port}")
        self._start_worker()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._running.items():
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                sys.stderr.write(f"{name} did not stop in 30 s: killed\n")
                process.kill()
                process.wait()

    def wait_until_serving(self, seconds: float = 60.0) -> None:
        """Return once the web server answers; SystemExit with its log otherwise."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check()
            try:
                with OPENER.open(f"{self.base}/admin/login/", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise SystemExit(f"the web server does not answer:\n{self._tail('web')}")

    def check(self) -> None:
        """SystemExit with the log's end when a process has died."""
        for name, process in self._running.items():
            if (code := process.poll()) is not None:
                tail = self._tail(name)
                raise SystemExit(f"the {name} ended with code {code}:\n{tail}")

    def replace_killed_worker(self) -> bool:
        """Start another worker when somebody has killed this one; tell whether so.

        One that ends by itself cannot work here: `check` tells why.
        """
        code = self._running["worker"].poll()
        if code is None or code >= 0:
            return False
        self._start_worker()
        return True

    def _start_worker(self) -> None:
        manage = str(BASE_DIR / "manage.py")
        self._start("worker", [sys.executable, manage, "runworker"])

    def _start(self, name: str, command: list[str], **environment: str) -> None:
        parent = os.getpid()
        with (self._logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ
                | {"DJANGO_SETTINGS_MODULE": "project.settings"}
                | environment,
                preexec_fn=lambda: linux.die_with_parent(parent, signal.SIGTERM),
            )

    def _tail(self, name: str) -> str:
        lines = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])
