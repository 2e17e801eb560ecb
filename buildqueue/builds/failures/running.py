"""What can go wrong between an artifact and an instance that answers?"""

from __future__ import annotations

from typing import Final

from .failure import Failure, Rows, of

SOURCE: Final[Rows] = {
    "start_failed": (
        "the new instance ended by itself before it answered; the old one still runs",
        "Read its last lines: an import, a variable or a file may be missing.",
    ),
    "health_timeout": (
        "the new instance stays up and never answered; the old one still runs",
        "Listen on the HOST and PORT of the environment, and answer soon after the start.",
    ),
    "out_of_memory": (
        "it used more memory than it may",
        "Give it more (memory_mb), or have it need less: fewer workers, smaller models.",
    ),
    "mcp_protocol_error": (
        "the server answers, and does not speak MCP over streamable HTTP",
        "Serve MCP at /mcp over streamable HTTP; try `initialize` and `tools/list`.",
    ),
    "environment_too_large": (
        "the environment takes more bytes than a process can be given",
        "Put large values into a file of the source, or fetch them when it runs.",
    ),
    "invalid_environment": (
        "a name or value of the environment cannot be set",
        "Correct the one that is named: letters, digits and '_'; HOST and PORT are given.",
    ),
    "secret_missing": (
        "the owner has no secret of this name",
        "Set the secret, then ask again.",
    ),
}
ASKED: Final[Rows] = {
    "invalid_replicas": (
        "the number of replicas is out of range",
        "Ask for a number in the range; to run none, stop the agent.",
    ),
    "invalid_resources": (
        "memory, processors or processes are out of range",
        "Correct the value that is named.",
    ),
    "invalid_writable_path": (
        "the path that shall be writable is no absolute one, or leads elsewhere",
        "Give an absolute path without `..` and `:`, such as `/data`.",
    ),
    "agent_deleted": (
        "the agent was deleted, or is being deleted",
        "Upload it anew, once its deletion has ended.",
    ),
    "connector_deleted": (
        "the connector was deleted, or is being deleted",
        "Upload it anew, once its deletion has ended.",
    ),
    "workload_deleted": (
        "what was to be started was deleted meanwhile",
        "Upload it anew.",
    ),
    "nothing_to_start": (
        "the agent has no active version",
        "Upload one, or deploy one that was built.",
    ),
    "version_missing": (
        "the version is not there any more",
        "Choose another version.",
    ),
}
HOST: Final[Rows] = {
    "address_taken": (
        "another program of the host listens on the port that is the target's for life",
        "It is tried again. If it stays: end that program.",
    ),
    "no_address": (
        "the runtime gave the target no address",
        "Ask for a new job; tell the operator when it happens twice.",
    ),
    "no_free_port": (
        "every port of the reserved range is in use",
        "Widen LOCAL_PORTS, or delete agents that nobody needs.",
    ),
    "launch_failed": (
        "the instance could not be started on this host",
        "It is tried again. If it stays: the reason names what the host lacks.",
    ),
    "strays_survive": (
        "processes of an earlier instance cannot be ended",
        "End them by hand: the reason names their user.",
    ),
    "confinement_unavailable": (
        "agents cannot be kept apart from the worker on this host",
        "Install what the reason names, or run the worker as root.",
    ),
    "runtime_unreachable": (
        "the host's local runtime does not answer",
        "It is tried again. If it stays: see in the worker's log why it does not start.",
    ),
    "runtime_not_started": (
        "the host's local runtime could not be started",
        "Read its own words in the reason; often its folder is not writable.",
    ),
    "runtime_key_invalid": (
        "the runtime was given keys that are none",
        "Leave the variable to the worker: unset it, and start the worker again.",
    ),
    "environment_unreadable": (
        "the instance's environment was sealed with another key; nothing was started",
        "Deploy it again, or put the key that was taken out back into SECRET_KEYS.",
    ),
    "environment_unavailable": (
        "what the host adds to the environment cannot be had now",
        "It is tried again. If it stays: look at the provider that is named.",
    ),
    "secret_unreadable": (
        "an encrypted value cannot be read with the keys of this host",
        "Add the key it was written with to SECRET_KEYS, or set the value again.",
    ),
    "state_not_saved": (
        "the runtime cannot write down what it does",
        "It is tried again. If it stays: is the disk full?",
    ),
    "scratch_not_made": (
        "no folder could be made for the instance",
        "It is tried again. If it stays: is the disk full?",
    ),
    "mcp_not_ready": (
        "the connector does not answer yet",
        "It is tried again. If it stays: is the connector up? Read its log.",
    ),
    "mcp_client_missing": (
        "the worker has no MCP client, so no connector can be asked whether it is ready",
        "Install the extra that the reason names on the worker's host.",
    ),
    "workload_starting": (
        "the address is asked while its target is being started",
        "Ask again in some seconds.",
    ),
    "workload_stopped": (
        "the address is asked while its target is stopped, or nothing of it runs",
        "Start it.",
    ),
    "workload_unknown": (
        "the runtime of this host does not know the target",
        "Start it, or deploy it again, on this host.",
    ),
    "upstream_unreachable": (
        "the target does not accept connections",
        "Ask again; if it stays, read its log and restart it.",
    ),
    "instance_unknown": (
        "the runtime does not know the instance",
        "Start or deploy it again.",
    ),
    "instance_not_running": (
        "the instance has ended before its address was switched to it",
        "Read its last lines, then deploy it again.",
    ),
    "instance_conflict": (
        "the instance's id is taken by one that runs something else",
        "Ask for a new job; tell the operator when it happens twice.",
    ),
    "invalid_id": (
        "the id of a target or instance has characters that are not taken",
        "Tell the operator: ids are made by the system itself.",
    ),
}
# Between a worker and a runtime of another version.
PROTOCOL: Final[Rows] = dict.fromkeys(
    ("malformed_request", "unknown_verb", "wrong_arguments"),
    (
        "the local runtime does not understand what the worker asks of it",
        "Restart the local runtime: it is of another version than the worker.",
    ),
)
FAILURES: Final[dict[str, Failure]] = {
    **dict(of("source", SOURCE)),
    **dict(of("request", ASKED)),
    **dict(of("host", HOST)),
    **dict(of("host", PROTOCOL)),
}
