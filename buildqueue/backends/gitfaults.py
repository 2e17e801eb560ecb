"""What does it mean when git fails? One table from what git says to a code.

git tells kinds of failure apart by its words alone, so it runs with untranslated ones.
Only its own lines count: what the server says comes marked as "remote:".
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence

from buildqueue.exceptions import BackendError, Rejected, Unavailable

# Raised on the way only: git.py knows which commit or ref was asked for.
UNADVERTISED = "git_commit_unadvertised"
GONE = "git_object_gone"
NO_COMMIT = "git_no_commit"

_MAX_TEXT, _MAX_MESSAGE = 4000, 1000
_OUT_OF_ROOM = {signal.SIGXFSZ, signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV}
_LINE = re.compile(r"(fatal|error): ")
_ADDRESS = re.compile(r"https?://[^\s']+")
_FAULTS: tuple[tuple[str, type[BackendError], str, str], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        Unavailable,
        "git_not_written",
        "there is no room for the repository on this host; free some",
    ),
    (
        r"File too large|[Oo]ut of memory|mmap failed|exceeds maximum allowed",
        Rejected,
        "git_too_large",
        "the repository is larger than a build may fetch; "
        "take large files out of it, or ask the operator about GIT_MAX_BYTES",
    ),
    (
        r"fsck error|hasDot|duplicateEntries|fullPathname|nullSha1|treeNotSorted"
        r"|badTree|emptyName|badFilemode|gitmodules",
        Rejected,
        "git_tree_refused",
        "git refuses what the repository holds: names such as '.git' or '..', or "
        "damaged objects; `git fsck` names them",
    ),
    (
        r"could not read (Username|Password)|Authentication failed"
        r"|returned error: 40[13]\b",
        Rejected,
        "git_access_denied",
        "the server does not let the repository be read, or hides that there is none; "
        "check the address, and give a valid token that may read it",
    ),
    (
        r"repository '.*' not found|returned error: (404|410)\b",
        Rejected,
        "git_repository_not_found",
        "the server knows no such repository, or hides a private one; "
        "check the address, and give a token that may read it",
    ),
    (
        r"returned error: 3\d\d\b|unable to update url base from redirection",
        Rejected,
        "git_redirected",
        "the repository has moved, and redirects are not followed; "
        "give its new address",
    ),
    (
        r"not our ref|couldn't find remote ref|no such remote ref",
        Rejected,
        GONE,
        "the server no longer has what was asked for",
    ),
    (
        r"Not a valid object name|Needed a single revision|expected commit type",
        Rejected,
        NO_COMMIT,
        "what was fetched is no commit",
    ),
    (
        r"does not allow request for unadvertised object",
        Rejected,
        UNADVERTISED,
        "the server gives out the ends of branches and tags only",
    ),
    (
        r"Operation too slow|Operation timed out|[Tt]imed out|Timeout was reached",
        Unavailable,
        "git_timed_out",
        "the server is too slow to answer; it is tried again",
    ),
    (
        r"certificate|SSL: no alternative",
        Rejected,
        "git_certificate_refused",
        "the server's certificate is not trusted here; "
        "set GIT_SSL_CAINFO for the worker to the one to trust",
    ),
    (
        r"Could not resolve|Failed to connect|[Cc]ouldn't connect|[Cc]onnection "
        r"|returned error: (407|408|429|5\d\d)\b|HTTP code|Empty reply|early EOF"
        r"|unexpected disconnect|RPC failed|hung up|transfer closed|recv error|send err"
        r"|[Nn]etwork|No route|TLS|SSL_|HTTP/2",
        Unavailable,
        "git_unreachable",
        "the server cannot be reached, or has trouble of its own; it is tried again",
    ),
    (
        r"is this a git repository|protocol error|bad line length|invalid server resp"
        r"|dumb http transport|could not determine hash|expected |bad pack|index-pack"
        r"|unpack-objects|did not send|invalid |remote did not|smart HTTP|ref format"
        r"|info/refs",
        Rejected,
        "git_answer_invalid",
        "what is at the address does not answer as a git repository does; "
        "check the address",
    ),
    (
        r"transport '.*' not allowed",
        Rejected,
        "git_protocol_not_allowed",
        "repositories are not fetched this way; give an https address",
    ),
)


def fault_of(
    lines: Sequence[str], exit_code: int, mask: Callable[[str], str]
) -> BackendError:
    """Return the error that git's words mean; they go, masked, into its detail."""
    told = [line for line in lines if _LINE.match(line)]
    text = "\n".join(told)
    # An address may hold any of the words that are looked for.
    known = _ADDRESS.sub("address", text[:_MAX_TEXT])
    kind, code, message = _meaning(known, exit_code)
    first = told[0] if told else f"git ended with {exit_code}"
    return kind(
        code,
        mask(f"{message} ({first})")[:_MAX_MESSAGE],
        detail=mask(text)[:_MAX_TEXT],  # cut last: no half of a token is left
        exit_code=exit_code,
    )


def _meaning(text: str, exit_code: int) -> tuple[type[BackendError], str, str]:
    for pattern, kind, code, message in _FAULTS:
        if re.search(pattern, text):
            return kind, code, message
    if -exit_code in _OUT_OF_ROOM:
        return Rejected, "git_too_large", "git needs more room than it may take"
    return Unavailable, "git_failed", "git failed"
