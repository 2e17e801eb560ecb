"""How does a branch, tag or commit of a repository become a folder of plain files?

`fetch_tree` leaves the whole tree or nothing. All it makes lies beside the destination:
if this process dies, a folder `.<name>.fetching` stays there, which the next call for
the same destination removes. The commit that was found is always told; a token never.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from buildqueue.backends.base import LineCallback
from buildqueue.backends.gitaddress import (
    GitAccess,
    GitLimits,
    check_commit,
    check_ref,
    check_token,
    check_url,
    is_commit,
)
from buildqueue.backends.gitfaults import GONE, NO_COMMIT, UNADVERTISED
from buildqueue.backends.gitfiles import write_tree
from buildqueue.backends.gitrefs import DEFAULT, ref_missing, resolve, short_name
from buildqueue.backends.gitrun import Git
from buildqueue.backends.processes import never
from buildqueue.backends.trees import remove_tree
from buildqueue.exceptions import Rejected

__all__ = [
    "Fetched",
    "GitAccess",
    "GitFetch",
    "GitLimits",
    "check_commit",
    "check_ref",
    "check_url",
    "fetch_tree",
    "resolve_ref",
]

_FETCHED = "refs/buildqueue/fetched"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFetch:
    """What to fetch: a commit, or else what a branch or tag is at, or the default."""

    url: str
    ref: str | None = None
    commit: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What was fetched."""

    commit: str
    ref: str  # the branch's or tag's name; "" when a commit alone was asked for
    files: int
    bytes: int


def fetch_tree(
    request: GitFetch,
    destination: Path,
    *,
    access: GitAccess,
    limits: GitLimits,
    on_line: LineCallback,
    cancelled: Callable[[], bool] = never,
) -> Fetched:
    """Fetch one commit and leave its files as `destination`, an older one replaced.

    Raises Unavailable, Rejected (codes: docs/reference/build-codes.md) or Cancelled.
    """
    git = _git_for(request.url, request.token, access, limits, on_line, cancelled)
    ref, commit = _wanted(request.ref, request.commit)
    work = destination.parent / f".{destination.name}.fetching"
    remove_tree(work)
    work.mkdir(mode=0o700)
    try:
        on_line(f"fetching {git.url} {commit or ref or ''}".rstrip())
        name, found = _download(git, ref, commit, work / "repository")
        on_line(f"found commit {found}")
        written = write_tree(git, found, work / "tree", limits)
        on_line(f"fetched {written.files} files of {written.bytes} bytes")
        remove_tree(destination)
        os.rename(work / "tree", destination)
    finally:
        remove_tree(work)
    return Fetched(commit=found, ref=name, files=written.files, bytes=written.bytes)


def resolve_ref(
    url: str,
    ref: str | None,
    token: str | None = None,
    *,
    access: GitAccess,
    limits: GitLimits | None = None,
    cancelled: Callable[[], bool] = never,
) -> str:
    """Return the commit that a branch or tag is at, None being the default branch."""
    limits = limits or GitLimits()
    git = _git_for(url, token, access, limits, lambda line: None, cancelled)
    name, commit = _wanted(ref, None)
    return commit or resolve(git, name).commit


def _git_for(
    url: str,
    token: str | None,
    access: GitAccess,
    limits: GitLimits,
    on_line: LineCallback,
    cancelled: Callable[[], bool],
) -> Git:
    return Git(
        url=check_url(url, access),
        token=check_token(token) if token else None,
        access=access,
        limits=limits,
        on_line=on_line,
        cancelled=cancelled,
    )


def _wanted(ref: str | None, commit: str | None) -> tuple[str | None, str | None]:
    """Return ref and commit, checked; a full hash given as a ref is a commit."""
    name = None if ref in (None, "", DEFAULT) else check_ref(str(ref))
    if commit:
        return name, check_commit(commit)
    if name and is_commit(name):
        return None, check_commit(name)
    return name, None


def _download(
    git: Git, ref: str | None, commit: str | None, repository: Path
) -> tuple[str, str]:
    """Fetch into a new repository; return the ref's short name and the commit."""
    if commit is not None:
        _make_repository(git, repository, commit)
        _fetch_commit(git, ref, commit)
        found = _commit_at(git, commit, otherwise=_no_commit(git, commit))
        name = short_name(ref or "")
    else:
        at = resolve(git, ref)
        _make_repository(git, repository, at.object_id)
        _fetch(git, at.name, missing=ref_missing(git, ref or at.name))
        # Not what was resolved: the branch may have moved since.
        found = _commit_at(git, _FETCHED, otherwise=_no_commit(git, at.name))
        name = short_name(at.name)
    git.refuse_size()
    return name, found


def _make_repository(git: Git, repository: Path, object_id: str) -> None:
    kind = "sha256" if len(object_id) == 64 else "sha1"
    git.ask(
        *("init", "--quiet", "--bare", "--template=", f"--object-format={kind}"),
        *("--", str(repository)),
    )
    git.repository = repository


def _fetch(git: Git, what: str, *, missing: Rejected, depth: bool = True) -> None:
    only = ("--depth=1",) if depth else ()
    try:
        git.ask_server(
            *("fetch", "--quiet", *only, "--no-tags", "--no-recurse-submodules"),
            *("--no-write-fetch-head", "--no-auto-maintenance", "--refmap="),
            *("--", git.url, f"+{what}:{_FETCHED}"),
        )
    except Rejected as error:
        if error.code == GONE:
            raise missing from error
        raise


def _fetch_commit(git: Git, ref: str | None, commit: str) -> None:
    """Fetch one commit, or the history it is in where the server gives no other."""
    missing = Rejected(
        "git_commit_not_found",
        f"{git.url} has no commit {commit}; it may have been replaced by a forced "
        "push. Push it again, or give another one",
    )
    try:
        _fetch(git, commit, missing=missing)
    except Rejected as error:
        if error.code != UNADVERTISED:
            raise
        git.on_line("the server gives no single commit: fetching the whole history")
        history = resolve(git, ref).name
        _fetch(git, history, missing=missing, depth=False)
        _commit_at(git, commit, otherwise=missing)


def _commit_at(git: Git, name: str, *, otherwise: Rejected) -> str:
    """Return the commit that a name of the local repository leads to."""
    asked = ("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    try:
        return git.ask(*asked)[0]
    except Rejected as error:
        if error.code == NO_COMMIT:
            raise otherwise from error
        raise


def _no_commit(git: Git, name: str) -> Rejected:
    return Rejected(
        "git_not_a_commit",
        f"{name} of {git.url} leads to no commit; give a branch, tag or commit",
    )
