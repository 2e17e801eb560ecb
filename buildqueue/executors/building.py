"""How does a source become something that can be deployed? Verified, built, published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import conf
from ..builds.lifecycle import progress
from . import base, host
from .base import BuildRun
from .gathering import SourceTree

if TYPE_CHECKING:
    from ..backends.base import BuiltArtifact


def verify(run: BuildRun, tree: SourceTree, version_of: Callable[[Path], str]) -> str:
    """Refuse a source that cannot be built; return the version that it gets."""
    with run.phase("verify") as step:
        if not step.done:
            path = tree.path()
            base.builder().validate_source(path)
            step.result = {"version": version_of(path)}
            run.log(f"the source can be built, as version {step.result['version']}")
    return str(step.result["version"])


def build(run: BuildRun, tree: SourceTree, version: str) -> BuiltArtifact:
    """Build on this host, unless an earlier attempt has, and it is still here."""
    from ..backends.base import BuildRequest, BuiltArtifact

    with run.phase("build", valid=_is_built) as step:
        if not step.done:
            request = BuildRequest(
                target_id=str(run.target_id),
                version=version,
                source_dir=tree.path(),
                timeout_seconds=conf.get().build_time_limit_seconds,
            )
            made = base.builder().build(request, run.log)
            step.result = {
                "host": host.host_id(),
                "reference": made.reference,
                "digest": made.digest,
                "ports": list(made.ports),
                "size_bytes": made.size_bytes,
            }
    found = {**step.result, "ports": tuple(step.result["ports"])}
    found.pop("host")
    return BuiltArtifact(**found)


def publish(run: BuildRun, artifact: BuiltArtifact) -> None:
    """Tell where the artifact is; a builder with a registry has pushed it there."""
    with run.phase(
        "publish", valid=lambda result: bool(result["reference"] == artifact.reference)
    ) as step:
        if not step.done:
            progress.keep_artifact(run.fence, artifact.reference, host=host.host_id())
            run.log(f"the artifact is {artifact.reference}")
            step.result = {"reference": artifact.reference}


def _is_built(result: dict[str, Any]) -> bool:
    here = result["host"] == host.host_id()
    return here and base.builder().exists(result["reference"])
