"""What does a commit hold, and which of it may become files?

git only tells what is there; names, kinds, numbers and sizes are checked before the
first byte is written. A link may name a file of the same commit, by its plain path; any
other link is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from buildqueue.backends.archivenames import Entry, checked_members
from buildqueue.backends.gitaddress import GitLimits
from buildqueue.backends.gitrun import Git
from buildqueue.exceptions import Rejected

FOLDER, PROGRAM, LINK, SUBMODULE = "040000", "100755", "120000", "160000"
_KINDS = {FOLDER: "tree", "100644": "blob", "100664": "blob", PROGRAM: "blob"}
_KINDS |= {LINK: "blob", SUBMODULE: "commit"}
_MAX_RECORD_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a commit's list."""

    mode: str
    object_id: str
    size: int  # of a folder or submodule: 0
    path: str


def list_tree(git: Git, commit: str, limits: GitLimits) -> list[Item]:
    """Return what the commit holds, folders included; stop at the limits."""
    items: list[Item] = []
    rest = b""
    total = 0

    def take(chunk: bytes) -> None:
        nonlocal rest, total
        *records, rest = (rest + chunk).split(b"\0")
        for record in records:
            items.append(parse_item(record))
            total += items[-1].size
            refuse_bytes(total, limits)
        if len(items) > limits.max_entries:
            raise Rejected(
                "git_too_many_files",
                f"the commit has more than {limits.max_entries} files and folders; "
                "leave out what is not needed to run it",
            )
        if len(rest) > _MAX_RECORD_BYTES:
            raise refused(rest[:200].decode(errors="replace"), "has too long a name")

    git.stream("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit, on_chunk=take)
    return items


def parse_item(record: bytes) -> Item:
    """Return what one record of `git ls-tree -l -z` says."""
    told, _, name = record.partition(b"\t")
    try:
        mode, kind, object_id, size = told.decode("ascii").split()
        path = name.decode()
    except ValueError as error:  # of UTF-8, too
        raise refused(name.decode(errors="replace"), "has no UTF-8 name") from error
    if _KINDS.get(mode) != kind:
        raise refused(path, f"is of a kind ({mode}) that is not taken")
    return Item(
        mode=mode,
        object_id=object_id,
        size=int(size) if size.isdigit() else 0,
        path=path,
    )


def check_names(items: Sequence[Item]) -> None:
    """Refuse names as those in an archive are; ".git" in any spelling and place."""
    for item in items:
        parts = item.path.split("/")
        if not all(parts) or {".", ".."} & set(parts):
            raise refused(item.path, "is no path inside of the repository")
        if any(part.casefold() == ".git" for part in parts):
            raise refused(item.path, "would be a repository of its own")
    entries = [
        Entry(
            name=item.path,
            index=index,
            is_folder=item.mode in (FOLDER, SUBMODULE),
            is_program=item.mode == PROGRAM,
            size=item.size,
        )
        for index, item in enumerate(items)
    ]
    try:
        checked_members(entries)
    except Rejected as error:
        if error.code == "archive_empty":
            raise Rejected(
                "git_tree_empty", "the commit holds no file; push the source"
            ) from error
        told = str(error).replace("in the archive", "in the repository")
        raise Rejected("git_name_refused", told) from error


def link_target(path: str, target: str, items: dict[str, Item]) -> Item:
    """Return the item that a link names, which may be a link again."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or found == ".." or found.startswith("../"):
        raise link_refused(path, target, "leads out of the repository")
    # Not by way of another link: what `a/../b` means depends on where `a` leads.
    if found not in items:
        raise link_refused(path, target, "leads to no file of the repository")
    if items[found].mode in (FOLDER, SUBMODULE):
        raise link_refused(path, target, "leads to a folder")
    return items[found]


def refuse_bytes(total: int, limits: GitLimits) -> None:
    """Refuse more bytes than the files of a commit may have together."""
    if total > limits.max_bytes_out:
        raise Rejected(
            "git_too_large",
            f"the commit's files take more than {limits.max_bytes_out} bytes; "
            "take large files out of the repository",
        )


def refused(path: str, why: str) -> Rejected:
    """Return the error that names the file."""
    return Rejected("git_name_refused", f"{path[:200]!r} in the repository {why}")


def link_refused(path: str, target: str, why: str) -> Rejected:
    """Return the error that names the link."""
    told = f"{path[:200]!r} in the repository is a link to {target[:200]!r}"
    return Rejected(
        "git_link_refused", f"{told}, which {why}; replace it by the file itself"
    )
