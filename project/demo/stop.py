"""`python -m project.demo.stop`: what may a killed demo or test run have left?

The embedded databases and the host's local runtime with its agents: all are stopped.
"""

from __future__ import annotations

import os
import sys

import django

from .. import embedded_postgres, paths


def main() -> int:
    """Stop all of it; what does not run is fine."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    # Named, so that the settings start no server only to have it stopped.
    os.environ.setdefault("DATABASE_URL", "postgresql:///not-opened")
    django.setup()
    from buildqueue.executors import services

    services.stop_local_runtime()
    for name in ("postgres", "test-postgres"):
        embedded_postgres.stop(paths.data_dir() / name)
    sys.stdout.write("stopped\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
