"""What can go wrong between a source and its artifact?"""

from __future__ import annotations

from typing import Final

from .failure import Failure, Rows, of

SOURCE: Final[Rows] = {
    "no_dockerfile": (
        "the source has neither a Dockerfile nor an entry point",
        "Add a Dockerfile, or a main.py at the top of the source.",
    ),
    "no_entry_point": (
        "the Dockerfile does not say what to run, and the source has no entry point",
        "Add a CMD to the Dockerfile, or a main.py at the top of the source.",
    ),
    "dockerfile_invalid": (
        "the Dockerfile cannot be read; the line is named",
        "Correct the line; `docker build` shows the same place.",
    ),
    "needs_container_backend": (
        "the Dockerfile asks for more than this host's backend can; the line is named",
        "Do without the line, or deploy where builds are made in containers.",
    ),
    "dependency_failed": (
        "the dependencies could not be installed; pip's last words are in the reason",
        "Correct the requirement that is named; try `pip install -r` in a new folder.",
    ),
}
HOST: Final[Rows] = {
    "package_index_unreachable": (
        "pip could not reach its package index",
        "It is tried again. If it stays: check the network, the proxy and PIP_INDEX_URL.",
    ),
    "environment_not_created": (
        "no virtual environment could be made for the build",
        "Install python3-venv on the worker's host, and look for room on its disk.",
    ),
    "python_unreachable": (
        "the host has no Python that an unprivileged user could run",
        "Install the system's python3, of 3.9 or later, on the worker's host.",
    ),
    "build_timed_out": (
        "the build took longer than it may",
        "Ask for less: fewer or smaller dependencies; or have the limit raised.",
    ),
    "command_timed_out": (
        "a command of the build did not end in time",
        "Look at its last lines: it may wait for an answer, or for a slow server.",
    ),
    "command_not_started": (
        "a command of the build could not be started",
        "It is tried again. If it stays: the reason names what the host lacks.",
    ),
    "bundle_busy": (
        "another build of the same version is under way on this host",
        "It is tried again. If it stays: wait until the other has ended.",
    ),
    "artifact_missing": (
        "what was built is not on this host any more",
        "Build it again: update the agent, or roll back to the version.",
    ),
    "invalid_reference": (
        "the artifact's name is not one that this backend gives",
        "Build it again with the backend that this host has.",
    ),
    "build_missing": (
        "the build's row is gone, or has ended already",
        "Ask for a new build.",
    ),
    "wrong_target": (
        "the job and its payload name different targets",
        "Ask for a new job; tell the operator, since nobody should be able to do this.",
    ),
}
FAILURES: Final[dict[str, Failure]] = {
    **dict(of("source", SOURCE)),
    **dict(of("host", HOST)),
}
