"""Does every builder keep the promises of `backends.base.Builder`?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from buildqueue.backends.base import BuildRequest
from buildqueue.exceptions import Rejected

from .conftest import Backend


def _names(tree: Path) -> list[str]:
    return sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))


def test_a_build_leaves_an_artifact_named_by_target_and_version(
    backend: Backend, build_request: BuildRequest
) -> None:
    lines: list[str] = []

    artifact = backend.builder.build(build_request, lines.append)

    assert build_request.target_id in artifact.reference
    assert build_request.version in artifact.reference
    assert artifact.digest.startswith("sha256:")
    assert artifact.size_bytes > 0
    assert lines
    assert backend.builder.exists(artifact.reference)
    backend.builder.remove(artifact.reference)


def test_the_same_request_again_gives_the_same_artifact(
    backend: Backend, build_request: BuildRequest
) -> None:
    first = backend.builder.build(build_request, lambda line: None)
    again = backend.builder.build(build_request, lambda line: None)

    assert (again.reference, again.digest) == (first.reference, first.digest)
    backend.builder.remove(first.reference)


def test_another_content_has_another_digest(
    backend: Backend, build_request: BuildRequest
) -> None:
    first = backend.builder.build(build_request, lambda line: None)
    (build_request.source_dir / "more.txt").write_text("more")
    other = backend.builder.build(
        replace(build_request, version="1.0.1"), lambda line: None
    )

    assert other.digest != first.digest
    backend.builder.remove(first.reference)
    backend.builder.remove(other.reference)


def test_a_build_leaves_the_source_as_it_was(
    backend: Backend, build_request: BuildRequest
) -> None:
    before = _names(build_request.source_dir)

    artifact = backend.builder.build(build_request, lambda line: None)

    assert _names(build_request.source_dir) == before
    backend.builder.remove(artifact.reference)


def test_a_source_without_an_entry_point_is_rejected(
    backend: Backend, build_request: BuildRequest
) -> None:
    (build_request.source_dir / "main.py").rename(build_request.source_dir / "x.py")

    with pytest.raises(Rejected) as refused:
        backend.builder.build(build_request, lambda line: None)

    assert refused.value.code == "no_dockerfile"


def test_a_removed_artifact_is_gone_and_removing_it_again_is_fine(
    backend: Backend, build_request: BuildRequest
) -> None:
    artifact = backend.builder.build(build_request, lambda line: None)

    backend.builder.remove(artifact.reference)
    backend.builder.remove(artifact.reference)

    assert not backend.builder.exists(artifact.reference)


def test_what_is_not_to_be_kept_is_cleaned_away(
    backend: Backend, build_request: BuildRequest
) -> None:
    builder = backend.builder
    old = builder.build(build_request, lambda line: None)
    new = builder.build(replace(build_request, version="9.9.9"), lambda line: None)
    target = build_request.target_id
    assert target in builder.targets()

    removed = builder.clean(target, keep={new.reference}, older_than_seconds=0)

    assert removed == 1
    assert builder.exists(new.reference)
    assert not builder.exists(old.reference)
    assert builder.clean(target, keep=set(), older_than_seconds=0) == 1
    assert builder.clean("unknown", keep=set(), older_than_seconds=0) == 0
