"""What is refused before there is a job, since it could not go well?"""

from __future__ import annotations

from typing import Final

from .failure import Failure, Rows, of

REFUSED: Final[Rows] = {
    "source_required": (
        "the request brings no source, or more than one",
        "Send either an archive or a repository.",
    ),
    "two_sources": (
        "the request brings an archive and a repository",
        "Send one of both.",
    ),
    "source_too_large": (
        "the archive has more bytes than are taken",
        "Leave out what is not needed to run it: .git, virtual environments, data.",
    ),
    "invalid_name": (
        "the name could not be deployed",
        "Take lower-case letters, digits, '-', '.' and '_', a letter or digit at the ends.",
    ),
    "invalid_ports": (
        "the ports are too many, or none that a program could listen on",
        "Give ports from 1 to 65535.",
    ),
    "invalid_parameter": (
        "a value of the request is out of its range; `fields` names it",
        "Correct the field that is named.",
    ),
    "invalid_secret": (
        "the secret's name or value cannot be kept",
        "Correct what is named: letters, digits and '_' in the name, text as the value.",
    ),
    "invalid_version": (
        "what was given is no version",
        "Write three numbers, such as 1.4.0.",
    ),
    "version_not_newer": (
        "the version is not above the newest one",
        "Take the next free one, which the answer names, or leave the version out.",
    ),
    "version_taken": (
        "the agent has this version already, and versions never change",
        "Take the next free one, which the answer names, or leave the version out.",
    ),
    "version_not_found": (
        "the agent has no such version",
        "Choose one of the agent's versions.",
    ),
    "version_not_eligible": (
        "the version is not one that can be deployed again",
        "Choose one that is archived or pushed.",
    ),
    "version_in_use": (
        "the version is active, or is being built or deployed",
        "Deploy another version first; what runs is not deleted.",
    ),
    "nothing_to_roll_back_to": (
        "no earlier version could be deployed again",
        "Update the agent with the source that you want back.",
    ),
    "build_ended": (
        "the build has ended; its job cannot be retried any more",
        "Upload anew, or update the agent.",
    ),
    "agent_deploying": (
        "nothing of the agent runs yet, and a build is under way",
        "Cancel the build's job, or wait for its end.",
    ),
    "already_running": (
        "the agent runs already",
        "Restart it to have it take over its settings.",
    ),
    "connector_exists": (
        "a connector that is run elsewhere has this name",
        "Take another name.",
    ),
    "connector_not_running": (
        "the connector runs on no host of ours, so it cannot be asked",
        "Upload it; its tools are read when it runs.",
    ),
    "watch_exists": (
        "this branch or tag is followed already",
        "Change the watch that is there, or remove it first.",
    ),
    "watch_paused": (
        "the watch is paused",
        "Resume it first.",
    ),
    "too_many_watches": (
        "the agent follows as many branches and tags as it may",
        "Remove a watch first.",
    ),
    "already_decided": (
        "the proposal was accepted, dismissed or replaced by a newer one",
        "Look for the newest proposal of the watch.",
    ),
    "invalid_grant": (
        "the agent cannot be opened to this user",
        "Name a user besides the owner.",
    ),
    "too_many_grants": (
        "the agent is open to as many users as it may",
        "Take a grant back first, or open the agent to everybody.",
    ),
    "not_found": (
        "it is gone, or is not yours to see",
        "Look it up in the list again.",
    ),
}
FAILURES: Final[dict[str, Failure]] = dict(of("request", REFUSED))
