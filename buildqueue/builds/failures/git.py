"""What can go wrong when a source is fetched from a repository?"""

from __future__ import annotations

from typing import Final

from .failure import Failure, Rows, of

ASKED: Final[Rows] = {
    "git_url_invalid": (
        "the address of the repository cannot be one",
        "Give it as the host's page shows it, such as https://github.com/owner/name.",
    ),
    "git_protocol_not_allowed": (
        "repositories are not fetched by this protocol",
        "Give the https address; the operator decides what else is allowed.",
    ),
    "git_host_not_allowed": (
        "repositories are not fetched from this host",
        "Take an allowed host, or have the operator add this one to GIT_HOSTS.",
    ),
    "git_credentials_in_url": (
        "the address holds a user or a password",
        "Give the address without, and the token beside it or as a secret.",
    ),
    "git_token_invalid": (
        "the token is not one word of ASCII characters",
        "Copy the token again, without spaces and line ends.",
    ),
    "git_ref_invalid": (
        "what was given cannot be the name of a branch or tag",
        "Give it as `git branch` or `git tag` shows it.",
    ),
    "git_commit_invalid": (
        "what was given is not the hash of a commit",
        "Give all 40 hexadecimal digits, as `git rev-parse` shows them.",
    ),
    "git_commit_short": (
        "only the beginning of a commit's hash was given",
        "Give all 40 digits, as `git rev-parse` shows them.",
    ),
    "git_repository_not_found": (
        "the server knows no such repository, or hides a private one",
        "Check the address; for a private one give a token that may read it.",
    ),
    "git_access_denied": (
        "the server does not let the repository be read",
        "Give a valid token that may read it; tokens run out and are revoked.",
    ),
    "git_redirected": (
        "the repository has moved",
        "Give its new address: redirects are not followed.",
    ),
    "git_answer_invalid": (
        "what is at the address does not answer as a git repository does",
        "Check the address: is it that of a page, or of an archive?",
    ),
    "git_ref_not_found": (
        "the repository has no such branch or tag",
        "Check the name, or push it; a commit is given by its full hash.",
    ),
    "git_commit_not_found": (
        "the repository has no such commit",
        "Push it again, or give another: a forced push may have replaced it.",
    ),
    "git_not_a_commit": (
        "the name leads to something that is no commit",
        "Give a branch, a commit, or a tag of a commit.",
    ),
}
CONTENT: Final[Rows] = {
    "git_repository_empty": (
        "the repository has no commit on its default branch",
        "Push one, or name a branch or tag.",
    ),
    "git_tree_empty": (
        "the commit holds no file",
        "Push the source, and build that commit.",
    ),
    "git_tree_refused": (
        "git refuses what the repository holds",
        "Run `git fsck` in it: names such as '.git' or damaged objects are named there.",
    ),
    "git_name_refused": (
        "a file of the commit has a name that is not taken",
        "Rename the file that is named, and push that.",
    ),
    "git_link_refused": (
        "a link of the commit leads out of the repository, or nowhere",
        "Replace the link by the file itself, and push that.",
    ),
    "git_too_many_files": (
        "the commit has more files and folders than are taken",
        "Leave out what is not needed to run it, such as vendored packages.",
    ),
    "git_too_large": (
        "the repository or the commit's files are larger than a build may fetch",
        "Take large files out of it, or ask the operator about GIT_MAX_BYTES.",
    ),
}
SERVER: Final[Rows] = {
    "git_unreachable": (
        "the git server cannot be reached, or has trouble of its own",
        "It is tried again. If it stays: look at the server's status, and the network.",
    ),
    "git_timed_out": (
        "the repository was not fetched in time",
        "It is tried again. If it stays: make it smaller, or raise GIT_TIMEOUT_SECONDS.",
    ),
    "git_certificate_refused": (
        "the git server's certificate is not trusted here",
        "Set GIT_SSL_CAINFO for the worker to the certificate to trust.",
    ),
    "git_missing": (
        "git is not installed on the worker's host",
        "Install git there, or let such builds run on a host that has it.",
    ),
    "git_not_written": (
        "the repository's files could not be written on this host",
        "It is tried again. If it stays: is the disk full, or the folder read-only?",
    ),
    "git_failed": (
        "git failed in a way that has no name yet",
        "Read git's own words in the log; they name the cause.",
    ),
}
FAILURES: Final[dict[str, Failure]] = {
    **dict(of("request", ASKED)),
    **dict(of("source", CONTENT)),
    **dict(of("host", SERVER)),
}
