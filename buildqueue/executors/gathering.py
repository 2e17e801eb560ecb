"""How does a build get its source? From the storage, or into it first.

What is not in the source storage yet, a repository or a file of another system, is put
there before anything else: a later attempt, on whatever host, builds the very same. The
source is unpacked when a phase first asks for it; one that resumes later never does.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..builds import gitaccess, secrets, sources
from ..builds.lifecycle import progress
from ..builds.payloads import GitSource, Source, SourceFile, SourceKey, StoredSource
from ..exceptions import Rejected
from .base import BuildRun


@dataclass(slots=True, kw_only=True)
class SourceTree:
    """A source in the storage, unpacked on this host when it is needed."""

    run: BuildRun
    folder: Path
    stored: StoredSource | SourceKey

    def path(self) -> Path:
        """Return the folder of the unpacked source."""
        from ..backends.archives import extract_archive

        tree = self.folder / "source"
        if not tree.exists():
            archive = self.folder / "archive"
            sources.fetch(self.stored, archive)
            report = extract_archive(archive, tree, sources.archive_limits())
            archive.unlink()
            self.run.log(f"unpacked, files: {len(report.files)}")
        return tree


def gather(
    run: BuildRun, source: Source, folder: Path, *, token: Callable[[], str | None]
) -> SourceTree:
    """Have the source in the storage; `token` is asked for a repository's only."""
    with run.phase("fetch", valid=lambda result: sources.exists(result["key"])) as step:
        if not step.done:
            stored, commit = _stored(run, source, folder, token)
            if isinstance(stored, StoredSource):
                progress.keep_source(run.fence, stored, commit=commit)
            step.result = stored.model_dump(mode="json")
    kept = StoredSource if "sha256" in step.result else SourceKey
    return SourceTree(run=run, folder=folder, stored=kept.model_validate(step.result))


def token_of(source: Source, owner_id: str, encrypted: str | None) -> str | None:
    """Return the token of a repository: given with the build, or a secret."""
    if encrypted:
        return secrets.decrypt(owner_id, encrypted)
    if isinstance(source, GitSource) and source.secret:
        return secrets.read_secret(owner_id, source.secret)
    return None


def is_kept(source: StoredSource) -> bool:
    """Tell whether the source is in the storage."""
    return sources.exists(source.key)


def _stored(
    run: BuildRun, source: Source, folder: Path, token: Callable[[], str | None]
) -> tuple[StoredSource | SourceKey, str | None]:
    match source:
        case GitSource():
            return _cloned(run, source, folder, token())
        case SourceFile():
            return _taken_over(run, source, folder), None
    if not sources.exists(source.key):
        raise Rejected("source_missing", "the stored source is gone; upload it again")
    run.log(f"the source is {source.key}")
    return source, None


def _cloned(
    run: BuildRun, source: GitSource, folder: Path, token: str | None
) -> tuple[StoredSource, str]:
    from ..backends.git import GitFetch, fetch_tree
    from ..backends.packing import pack_tree

    tree = folder / "source"
    fetched = fetch_tree(
        GitFetch(url=source.url, ref=source.ref, commit=source.commit, token=token),
        tree,
        access=gitaccess.access(),
        limits=gitaccess.limits(),
        on_line=run.log,
        cancelled=run.lease_watch(),
    )
    run.log(f"{source.url} is at commit {fetched.commit}")
    packed = folder / "packed"
    pack_tree(tree, packed)
    stored = sources.keep(sources.spooled(packed))
    packed.unlink()
    return stored, fetched.commit


def _taken_over(run: BuildRun, source: SourceFile, folder: Path) -> StoredSource:
    """Put a file that another system left on this host into the storage."""
    file = Path(source.zip_path)
    if not file.is_absolute() or file.is_symlink() or not file.is_file():
        raise Rejected(
            "source_missing",
            "the archive of this job is not on this host; upload it again",
        )
    copy = folder / "given"
    shutil.copyfile(file, copy)
    stored = sources.keep(sources.spooled(copy))
    copy.unlink()
    run.log(f"took over {file.name}")
    return stored
