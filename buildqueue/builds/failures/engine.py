"""How can any job end badly, and what does that mean for a build?

The codes are the engine's (docs/reference/job-codes.md); here stands what helps whoever
waits for a build. After a crash the finished steps are kept, so a retry is cheap.
"""

from __future__ import annotations

from typing import Final

from .failure import Failure, Rows, of

AGAIN: Final = "Retry it: finished steps are kept."

LIMITS: Final[Rows] = {
    "timed_out": (
        "the build ran longer than its limit",
        "Have it do less, such as fewer dependencies; or raise BUILD_TIME_LIMIT_SECONDS.",
    ),
    "soft_timed_out": (
        "the build ran longer than its soft limit",
        "Have it do less, such as fewer dependencies; or raise the soft limit.",
    ),
    "step_timed_out": (
        "a step of the build took longer than it may; nothing of it was kept",
        "Look at the step's last lines: what was it waiting for?",
    ),
    "cpu_limit": (
        "the build used more processor time than its limit",
        "Take packages that need no compiling, or have the limit raised.",
    ),
    "process_limit": (
        "the build had more processes and threads at once than its limit",
        "Build with fewer parallel jobs, or have the limit raised.",
    ),
    "file_limit": (
        "the build wrote a file larger than its limit",
        "Leave large files out of the source, and fetch them when it runs.",
    ),
}
ENGINE: Final[Rows] = {
    "max_attempts_exhausted": (
        "its attempts are used up; the last cause stands behind the code",
        "Remove the last cause, which the reason names, then retry the job.",
    ),
    "exception": (
        "something happened that nobody expected; the traceback is on the run",
        "Tell the operator; a retry keeps the finished steps.",
    ),
    "exited": ("the build's process exited by itself", AGAIN),
    "killed_by_signal": (
        "the build's process was ended by a signal",
        "Retry it. If it stays: did the host end it for its memory?",
    ),
    "guardian_died": ("the process that watches over the build was killed", AGAIN),
    "garbled": ("the build's process told the worker what makes no sense", AGAIN),
    "worker_died": ("the build's worker was killed", AGAIN),
    "lease_over": (
        "the build's worker went silent for longer than a lease",
        "Retry it, and look at the worker's host: was it overloaded or cut off?",
    ),
    "unknown_kind": (
        "no worker of this version knows the kind of the job",
        "Run workers of the same version as the site.",
    ),
    "invalid_payload": (
        "the job's payload does not fit its kind",
        "Run workers of the same version as the site, then ask for a new build.",
    ),
    "not_storable": (
        "a result of the build is too large or too deep to be stored",
        "Tell the operator: the reason names the value.",
    ),
    "outcome_refused": (
        "what the build answered cannot be stored",
        "Tell the operator: the reason names the value.",
    ),
    "result_missing": (
        "the build said done, and the database says otherwise",
        "Retry it; tell the operator when it happens twice.",
    ),
    "step_repeated": (
        "a step was run twice at once; its effect is there once",
        "Retry it: the step is found done.",
    ),
    "transient": ("it did not work now, and may work later", AGAIN),
    "permanent": (
        "it does not work, and will not by itself",
        "Remove the cause that the reason names, then ask for a new build.",
    ),
    "failed": (
        "the build gave up without a code of its own",
        "Read the reason and the last lines of the log.",
    ),
}
PEOPLE: Final[Rows] = {
    "cancelled": (
        "a person cancelled it, or it was asked to stop",
        "Ask for a new build when you still want it.",
    ),
    "force_failed": (
        "a person ended it as failed; the reason is theirs",
        "Remove the cause that they name, then retry it.",
    ),
    "replaced": (
        "a newer job was asked for in its place",
        "Look at the newer build.",
    ),
    "withdrawn": (
        "the work has become pointless, such as that of a deleted target",
        "Nothing is to be done.",
    ),
}
FAILURES: Final[dict[str, Failure]] = {
    **dict(of("host", LIMITS)),
    **dict(of("host", ENGINE)),
    **dict(of("request", PEOPLE)),
}
