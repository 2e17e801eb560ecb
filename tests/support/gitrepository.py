"""How does a test fill a git repository, also with what git itself refuses?

By plumbing: no working tree, no hooks, and the same commits each time.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE, PROGRAM, FOLDER, LINK, SUBMODULE = "100644", "100755", "40000", "120000", "160000"
NOBODY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


@dataclass
class Repository:
    """A bare repository on the server; every verb returns the commit it made."""

    folder: Path
    _clock: int = 1_700_000_000

    def git(self, *arguments: str, stdin: bytes = b"", **env: str) -> str:
        """Run git in the repository; return what it printed, without the last newline."""
        done = subprocess.run(
            ["git", "-c", "gc.auto=0", *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            env=NOBODY | {"PATH": os.environ["PATH"], "HOME": str(self.folder)} | env,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stderr.decode(errors="replace"))
        return done.stdout.decode().removesuffix("\n")

    def commit(
        self,
        files: Mapping[str, str | bytes | None],
        *,
        branch: str = "main",
        message: str = "a change",
        programs: Iterable[str] = (),
        links: Mapping[str, str] | None = None,
        submodules: Mapping[str, str] | None = None,
    ) -> str:
        """Change files on a branch (None removes one) and commit; makes the branch.

        `programs` names the executable ones, `links` maps a name to where it leads,
        `submodules` a name to a commit.
        """
        parent = self.head(branch)
        lines = []
        for name, content in files.items():
            mode = PROGRAM if name in set(programs) else FILE
            lines.append((mode, name, None if content is None else self.blob(content)))
        lines += [(LINK, n, self.blob(to)) for n, to in (links or {}).items()]
        lines += [(SUBMODULE, name, at) for name, at in (submodules or {}).items()]
        tree = self._changed(parent, lines)
        return self.commit_tree(tree, branch=branch, message=message, parent=parent)

    def _changed(
        self, parent: str | None, lines: list[tuple[str, str, str | None]]
    ) -> str:
        index = {"GIT_INDEX_FILE": str(self.folder / "test-index")}
        self.git("read-tree", parent or "--empty", **index)
        told = "".join(
            f"0 {'0' * 40}\t{name}\0" if at is None else f"{mode} {at}\t{name}\0"
            for mode, name, at in lines
        )
        self.git("update-index", "-z", "--index-info", stdin=told.encode(), **index)
        return self.git("write-tree", **index)

    def commit_tree(
        self,
        tree: str,
        *,
        branch: str = "main",
        message: str = "a change",
        parent: str | None = None,
    ) -> str:
        """Commit a tree as it is and move the branch there, wherever it was."""
        self._clock += 60
        at = f"{self._clock} +0000"
        since = ["-p", parent] if parent else []
        made = self.git(
            *("commit-tree", *since, "-m", message, tree),
            GIT_AUTHOR_DATE=at,
            GIT_COMMITTER_DATE=at,
        )
        self.branch(branch, made)
        return made

    def force_push(
        self, files: Mapping[str, str | bytes], *, branch: str = "main"
    ) -> str:
        """Replace a branch by one commit without a past; the old commits are gone."""
        lines = [(FILE, name, self.blob(content)) for name, content in files.items()]
        made = self.commit_tree(
            self._changed(None, list(lines)), branch=branch, message="forced"
        )
        self.prune()
        return made

    def prune(self) -> None:
        """Forget every object that no branch or tag leads to."""
        self.git("prune", "--expire=now")

    def branch(self, name: str, commit: str) -> None:
        """Move or make a branch, also one that git would not make (`-x`)."""
        self.git("update-ref", f"refs/heads/{name}", commit)

    def delete_branch(self, name: str) -> None:
        """Remove a branch."""
        self.git("update-ref", "-d", f"refs/heads/{name}")

    def tag(
        self, name: str, commit: str | None = None, *, message: str | None = None
    ) -> str:
        """Tag a commit, by default main's; annotated if there is a message."""
        target = commit or self.head()
        assert target is not None, "nothing to tag"
        if message is None:
            self.git("update-ref", f"refs/tags/{name}", target)
        else:
            self.git("tag", "-f", "-a", "-m", message, name, target)
        return target

    def head(self, branch: str = "main") -> str | None:
        """Return the commit a branch is at; None if there is no such branch."""
        ref = f"refs/heads/{branch}"
        return self.git("for-each-ref", "--format=%(objectname)", ref) or None

    def blob(self, content: str | bytes) -> str:
        """Store a file's content; return its object id."""
        given = content.encode() if isinstance(content, str) else content
        return self.git("hash-object", "-w", "--stdin", stdin=given)

    def tree(self, entries: Iterable[tuple[str, bytes | str, str]]) -> str:
        """Store a tree of (mode, name, object id) as given, unsorted and unchecked."""
        raw = b""
        for mode, name, at in entries:
            told = name.encode() if isinstance(name, str) else name
            raw += mode.encode() + b" " + told + b"\0" + bytes.fromhex(at)
        store = ("hash-object", "--literally", "-t", "tree", "-w", "--stdin")
        return self.git(*store, stdin=raw)
