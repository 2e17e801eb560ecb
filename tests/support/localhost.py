"""How does a test get a real local backend? One runtime of its own, ended afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from buildqueue.backends.confinement import detect, private_root
from buildqueue.backends.local import LocalBuilder
from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.backends.localruntime.service import ensure_running
from buildqueue.exceptions import BackendError


@contextmanager
def local_backend(folder: Path) -> Iterator[tuple[LocalBuilder, LocalRuntime]]:
    """Yield builder and runtime below a folder; end every process and file of theirs."""
    root = private_root(folder)
    options = ("--accept-unconfined",)
    runtime = ensure_running(root, options=options)
    try:
        yield LocalBuilder(root, detect(accept_none=True)), runtime
    finally:
        with suppress(BackendError):
            for workload in runtime.workloads():
                runtime.delete(workload.workload_id)
        runtime.shut_down(keep_instances=False)
        shutil.rmtree(root, ignore_errors=True)
