"""How does a source tree become a bundle, without a container engine?

It is planned, copied, and given a virtual environment with what its requirements ask
for. A death on the way leaves a folder that is no bundle and that the target's next
build clears; the bundle that was there stays until the new one is published.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from buildqueue.backends.base import BuildRequest, BuiltArtifact, LineCallback
from buildqueue.backends.bundles import (
    Bundle,
    bundle_exists,
    clean_target,
    clear_folder,
    clear_leftovers,
    list_bundles,
    make_reference,
    open_folder,
    publish_bundle,
    read_bundle,
    remove_bundle,
)
from buildqueue.backends.confinement import Confinement
from buildqueue.backends.installation import Installation
from buildqueue.backends.launching import SYSTEM_PATH
from buildqueue.backends.localplan import LocalPlan, plan_source
from buildqueue.backends.packageindexes import index_environment
from buildqueue.backends.trees import digest_tree, size_of

_PYTHONS = re.compile(r"(?:/usr/(?:local/)?bin/)?python3?(?:\.\d+)?")


class LocalBuilder:
    """Builds bundles below `root`, which `private_root` has made reachable."""

    name = "local"

    def __init__(
        self,
        root: Path,
        confinement: Confinement,
        *,
        pip_options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._root, self._confinement = root, confinement
        self._pip_options = tuple(pip_options)
        self._index = index_environment(os.environ if environ is None else environ)

    def validate_source(self, source_dir: Path) -> None:
        """Refuse a tree that `build` would refuse, without building it."""
        plan_source(source_dir)
        digest_tree(source_dir)

    def build(self, request: BuildRequest, on_line: LineCallback) -> BuiltArtifact:
        """Build, or reuse the bundle of the same content; replaces another content.

        Raises Rejected for what the source does wrong, a build that takes too long
        included, and Unavailable when the host or the package index is at fault.
        """
        plan = plan_source(request.source_dir)
        digest = digest_tree(request.source_dir)
        reference = make_reference(request.target_id, request.version, digest)
        with open_folder(self._root, reference) as folder:
            bundle = self._usable(reference)
            if bundle is not None:
                on_line(f"{reference} is built already")
                return _artifact(bundle)
            clear_leftovers(folder.parent)
            clear_folder(folder)
            installation = Installation(
                confinement=self._confinement,
                index=self._index,
                pip_options=self._pip_options,
                folder=folder,
                target_id=request.target_id,
                deadline=time.monotonic() + request.timeout_seconds,
                on_line=on_line,
            )
            try:
                installation.install(plan, request.source_dir)
                bundle = _bundle(plan, folder, reference, digest)
                publish_bundle(bundle)
            except BaseException:
                clear_folder(folder)
                raise
            self._remove_others(request, reference)
        on_line(f"built {reference}, {bundle.size_bytes} bytes")
        return _artifact(bundle)

    def remove(self, reference: str) -> None:
        """Delete the bundle; absent is fine."""
        remove_bundle(self._root, reference)

    def exists(self, reference: str) -> bool:
        """Tell whether the bundle can be deployed."""
        return bundle_exists(self._root, reference)

    def targets(self) -> list[str]:
        """Return the ids of the targets of which something may be here."""
        return [path.name for path in (self._root / "bundles").glob("*")]

    def clean(
        self, target_id: str, *, keep: Collection[str], older_than_seconds: float
    ) -> int:
        """Delete what is here of the target, as old as that, and not to be kept."""
        return clean_target(
            self._root, target_id, keep=keep, older_than_seconds=older_than_seconds
        )

    def _usable(self, reference: str) -> Bundle | None:
        """Return the bundle if it is there and its interpreter still is, too."""
        if not bundle_exists(self._root, reference):
            return None
        bundle = read_bundle(self._root, reference)
        return bundle if Path(bundle.python).exists() else None

    def _remove_others(self, request: BuildRequest, reference: str) -> None:
        prefix = f"local:{request.target_id}/{request.version}@"
        for bundle in list_bundles(self._root, request.target_id):
            if bundle.reference.startswith(prefix) and bundle.reference != reference:
                remove_bundle(self._root, bundle.reference)


def _bundle(plan: LocalPlan, folder: Path, reference: str, digest: str) -> Bundle:
    app, bin_ = folder / "app", folder / "venv" / "bin"
    env = {name: _relocate(value, plan.root, app) for name, value in plan.env.items()}
    program, *arguments = plan.argv
    if _PYTHONS.fullmatch(program):
        program = str(bin_ / "python")
    return Bundle(
        reference=reference,
        digest=digest,
        argv=(program, *(_relocate(word, plan.root, app) for word in arguments)),
        env={
            "PYTHONUNBUFFERED": "1",  # so that a log line is seen when it is written
            "VIRTUAL_ENV": str(bin_.parent),
            **env,
            "PATH": f"{bin_}:{SYSTEM_PATH}",
        },
        workdir=str(app / plan.workdir),
        ports=plan.ports,
        python=str(bin_ / "python"),
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        size_bytes=size_of(folder),
        folder=str(folder),
    )


def _relocate(text: str, root: str, app: Path) -> str:
    """Return the text with the source's path in the image made the bundle's."""
    if root == "/":
        return text
    whole = rf"(?<![\w./-]){re.escape(root)}(?![\w.-])"
    return re.sub(whole, lambda _: str(app), text)


def _artifact(bundle: Bundle) -> BuiltArtifact:
    return BuiltArtifact(
        reference=bundle.reference,
        digest=bundle.digest,
        ports=bundle.ports,
        size_bytes=bundle.size_bytes,
    )
