"""Which commit is a branch or tag at? The server is asked, and nothing is fetched.

A branch comes before a tag of the same name; `refs/tags/...` names the tag all the
same. An annotated tag counts as the commit it is for.
"""

from __future__ import annotations

from dataclasses import dataclass

from buildqueue.backends.gitaddress import is_commit
from buildqueue.backends.gitrun import Git
from buildqueue.exceptions import Rejected

DEFAULT = "HEAD"
PLACES = ("refs/heads/", "refs/tags/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A ref of the server: its whole name, what it names, and the commit behind."""

    name: str
    object_id: str
    commit: str


def short_name(ref: str) -> str:
    """Return the name of a branch or tag as people give it."""
    for place in PLACES:
        if ref.startswith(place):
            return ref.removeprefix(place)
    return ref


def resolve(git: Git, ref: str | None) -> Found:
    """Ask the server which commit the ref is at."""
    if ref is None:
        lines = git.ask_server("ls-remote", "--symref", "--", git.url, DEFAULT)
        return _default_branch(git, lines)
    names = [ref] if ref.startswith(PLACES) else [place + ref for place in PLACES]
    patterns = [pattern for name in names for pattern in (name, f"{name}^{{}}")]
    lines = git.ask_server("ls-remote", "--", git.url, *patterns)
    parts = (line.partition("\t") for line in lines)
    told = {name: object_id for object_id, _, name in parts}
    for name in names:
        if object_id := told.get(name):
            commit = told.get(f"{name}^{{}}", object_id)
            return Found(name=name, object_id=object_id, commit=commit)
    raise ref_missing(git, ref)


def _default_branch(git: Git, lines: list[str]) -> Found:
    told = [line.split("\t", 1) for line in lines if line.endswith(f"\t{DEFAULT}")]
    names = [
        value.removeprefix("ref: ") for value, _ in told if value.startswith("ref")
    ]
    at = [value for value, _ in told if is_commit(value)]
    if not at:
        raise Rejected(
            "git_repository_empty",
            f"{git.url} has no commit on its default branch, or is no repository; "
            "push one, or name a branch or tag",
        )
    name = names[0] if names else DEFAULT
    return Found(name=name, object_id=at[0], commit=at[0])


def ref_missing(git: Git, ref: str) -> Rejected:
    """Return the error that names the branch or tag."""
    return Rejected(
        "git_ref_not_found",
        f"{git.url} has no branch or tag {ref!r}; "
        "check its name (a commit is given by its full hash)",
    )
