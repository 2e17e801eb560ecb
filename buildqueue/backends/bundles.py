"""What is a bundle, the local backend's artifact, and where does it stand?

`<root>/bundles/<target>/<version>-<digest12>/` holds `app/`, `venv/` and
`bundle.json`. The last is written at the very end, by a rename: a folder without it is
no bundle but what a dead build left, and the next build clears it. The tree is built
where it stays, because a virtual environment knows its own path.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from buildqueue.backends.trees import make_passable, remove_tree
from buildqueue.exceptions import Rejected, Unavailable

BUNDLE_FILE = "bundle.json"
LOCK = ".lock"

_REFERENCE = re.compile(
    r"local:(?P<target>[A-Za-z0-9][A-Za-z0-9_-]{0,63})"
    r"/(?P<version>[A-Za-z0-9_][A-Za-z0-9._+-]{0,127})"
    r"@sha256:(?P<digest>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """How to run one built version; `argv`, `env` and `python` hold absolute paths."""

    reference: str  # local:<target>/<version>@sha256:<digest>
    digest: str  # sha256:...
    argv: tuple[str, ...]
    env: dict[str, str]  # PATH leads into the virtual environment
    workdir: str  # absolute, app/ or a folder in it
    ports: tuple[int, ...]
    python: str
    created: str  # ISO 8601, UTC
    size_bytes: int
    folder: str  # absolute: the one path a workload must be able to read


def make_reference(target_id: str, version: str, digest: str) -> str:
    """Return the reference, or refuse names that would not make a folder."""
    reference = f"local:{target_id}/{version}@{digest}"
    _parts(reference)
    return reference


def bundle_folder(root: Path, reference: str) -> Path:
    """Return where the bundle stands, or would."""
    target, version, digest = _parts(reference)
    return root / "bundles" / target / f"{version}-{digest[:12]}"


def read_bundle(root: Path, reference: str) -> Bundle:
    """Return the bundle; refuse with `artifact_missing` when it is not there whole."""
    bundle = _read(bundle_folder(root, reference))
    if bundle is None or bundle.reference != reference:
        raise Rejected(
            "artifact_missing", f"{reference} is not on this host; build it again"
        )
    return bundle


def bundle_exists(root: Path, reference: str) -> bool:
    """Tell whether the bundle can be deployed."""
    try:
        read_bundle(root, reference)
    except Rejected:
        return False
    return True


def list_bundles(root: Path, target_id: str | None = None) -> list[Bundle]:
    """Return all published bundles, or one target's, oldest first."""
    pattern = f"{target_id or '*'}/*/{BUNDLE_FILE}"
    found = (_read(file.parent) for file in (root / "bundles").glob(pattern))
    return sorted(
        (bundle for bundle in found if bundle is not None),
        key=lambda bundle: (bundle.created, bundle.reference),
    )


@contextmanager
def open_folder(root: Path, reference: str) -> Iterator[Path]:
    """Yield the bundle's folder, held against other builders of the same target.

    The lock ends with the process that took it, so a dead builder blocks nobody.
    """
    folder = bundle_folder(root, reference)
    make_passable(folder.parent)
    with _locked(folder.parent):
        yield folder


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    with (target / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable(
                "bundle_busy", f"another build of {target.name} is running here"
            ) from None
        yield


def publish_bundle(bundle: Bundle) -> None:
    """Make the finished folder a bundle: none before the rename, whole after it."""
    folder = Path(bundle.folder)
    staged = folder / f".{BUNDLE_FILE}"
    staged.write_text(json.dumps(asdict(bundle), indent=2, sort_keys=True))
    staged.chmod(0o600)
    os.replace(staged, folder / BUNDLE_FILE)


def remove_bundle(root: Path, reference: str) -> None:
    """Delete the bundle; absent is fine. Dying half-way leaves none to deploy."""
    clear_folder(bundle_folder(root, reference))


def clear_folder(folder: Path) -> None:
    """Remove a folder, its claim to be a bundle first."""
    (folder / BUNDLE_FILE).unlink(missing_ok=True)
    remove_tree(folder)


def clear_leftovers(target_folder: Path) -> None:
    """Remove what builds that died left of this target; the lock must be held."""
    for folder in target_folder.iterdir():
        if folder.is_dir() and not (folder / BUNDLE_FILE).exists():
            clear_folder(folder)


def clean_target(
    root: Path, target_id: str, *, keep: Collection[str], older_than_seconds: float
) -> int:
    """Remove the target's old bundles and leftovers but for those to be kept.

    Returns how many; none while another builder holds the target.
    """
    target = root / "bundles" / target_id
    before, removed = time.time() - older_than_seconds, 0
    try:
        with _locked(target):
            for folder in [each for each in target.iterdir() if each.is_dir()]:
                bundle = _read(folder)
                kept = bundle is not None and bundle.reference in keep
                if not kept and folder.stat().st_mtime <= before:
                    clear_folder(folder)
                    removed += 1
            if [each.name for each in target.iterdir()] == [LOCK]:
                remove_tree(target)  # a builder that comes now makes it anew
    except (Unavailable, FileNotFoundError):
        return removed
    return removed


def _read(folder: Path) -> Bundle | None:
    try:
        fields = json.loads((folder / BUNDLE_FILE).read_text())
        fields["argv"], fields["ports"] = tuple(fields["argv"]), tuple(fields["ports"])
        return Bundle(**fields)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parts(reference: str) -> tuple[str, str, str]:
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise Rejected(
            "invalid_reference",
            f"{reference!r} is no reference of the local backend, which is "
            "local:<target>/<version>@sha256:<digest>",
        )
    return match["target"], match["version"], match["digest"]
