"""Which verbs has `manage.py buildqueue agent`, and what does each take?"""

from __future__ import annotations

from typing import Any

from .. import typed
from . import options

SOURCE = "A zip, a tar, a folder, or - for an archive from the standard input."
STEP = "patch (the default), minor, major, or x.y.z."


def add(verbs: Any) -> None:
    """Add the verbs."""
    _looking(verbs)
    _building(verbs)
    _running(verbs)


def _looking(verbs: Any) -> None:
    listing = options.verb(verbs, "list", "List agents, the newest first.")
    options.owner(listing, required=False)
    listing.add_argument(
        "--deleted", action="store_true", help="Those that were deleted, too."
    )
    options.limited(listing)
    options.agent(
        options.verb(verbs, "show", "Show an agent, its deployment and newest build.")
    )
    options.agent(options.verb(verbs, "grants", "List to whom an agent is opened."))
    for name, text in {
        "versions": "List an agent's versions, and what the next could be.",
        "deployments": "List an agent's deployments, the newest first.",
        "builds": "List an agent's builds, the newest first.",
    }.items():
        command = options.verb(verbs, name, text)
        options.agent(command)
        options.limited(command)
    logs = options.verb(verbs, "logs", "Print what an agent's program printed last.")
    options.agent(logs)
    logs.add_argument(
        "--lines", type=typed.count, default=100, help="How many lines (100)."
    )


def _building(verbs: Any) -> None:
    upload = options.verb(
        verbs, "upload", "Build and deploy an archive or a folder under a name."
    )
    upload.add_argument("name", type=typed.words, help="The agent's name.")
    upload.add_argument("source", help=SOURCE)
    options.owner(upload, required=True)
    clone = options.verb(verbs, "clone", "Build and deploy a repository under a name.")
    clone.add_argument("name", type=typed.words, help="The agent's name.")
    options.owner(clone, required=True)
    options.repository(clone, required=True)
    for command in (upload, clone):
        options.version(command, "x.y.z; else as the source says, or the next one.")
        options.limits(command)
    update = options.verb(
        verbs, "update", "Build and deploy a new version, from where it came before."
    )
    options.agent(update)
    update.add_argument("source", nargs="?", help=f"{SOURCE} Else as it came before.")
    options.repository(update)
    options.version(update, STEP)
    options.limits(update)
    build = options.verb(verbs, "build", "Build a version without deploying it.")
    build.add_argument(
        "agent", help="The agent; with --owner the name of one that may be new."
    )
    build.add_argument("source", nargs="?", help=f"{SOURCE} Else as it came before.")
    options.owner(build, required=False)
    options.repository(build)
    options.version(build, "x.y.z; else as the source says, or the next one.")
    for command in (upload, clone, update):
        options.environment(command)
    for command in (upload, clone, update, build):
        options.waiting(command)
    _deploying(verbs)


def _deploying(verbs: Any) -> None:
    rollback = options.verb(verbs, "rollback", "Go back to a version of before.")
    options.agent(rollback)
    rollback.add_argument(
        "--version", type=typed.words, help="Which; else the newest of before."
    )
    deploy = options.verb(verbs, "deploy", "Deploy a version that is built.")
    options.agent(deploy)
    deploy.add_argument("version", type=typed.words, help="Which: x.y.z.")
    for command in (rollback, deploy):
        options.reason(command)
        options.waiting(command)
    remove = options.verb(
        verbs, "delete-version", "Forget a version that neither runs nor is built."
    )
    options.agent(remove)
    remove.add_argument("version", type=typed.words, help="Which: x.y.z.")
    options.sure(remove)


def _running(verbs: Any) -> None:
    for name, text in {
        "start": "Start an agent that is stopped or has crashed.",
        "stop": "End an agent's processes; it can be started again.",
        "restart": "Put a new instance in place of the one that runs.",
        "scale": "Have so many copies run.",
        "delete": "Delete an agent, cancel what is open for it, end its processes.",
    }.items():
        command = options.verb(verbs, name, text)
        options.agent(command)
        if name == "scale":
            command.add_argument("replicas", type=int, help="How many.")
        if name == "delete":
            options.sure(command)
        options.reason(command)
        options.waiting(command)
    env = options.verb(
        verbs, "env", "List the names of an agent's variables, or change some."
    )
    options.agent(env)
    options.environment(env)
    env.add_argument(
        "--remove",
        action="append",
        type=options.variable,
        metavar="NAME",
        help="Forget this variable; may be repeated.",
    )
    _opening(verbs)


def _opening(verbs: Any) -> None:
    for name, text in {
        "grant": "Open an agent to a user, or to everybody.",
        "revoke": "Take back what was opened.",
    }.items():
        command = options.verb(verbs, name, text)
        options.agent(command)
        whom = command.add_mutually_exclusive_group(required=True)
        whom.add_argument("--user", help=options.OWNER)
        whom.add_argument("--everybody", action="store_true", help="Everybody.")
        if name == "grant":
            command.add_argument(
                "--manage", action="store_true", help="To change it, too; else to look."
            )
