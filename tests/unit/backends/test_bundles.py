"""Is a bundle there whole or not at all, and is a reference more than a path?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from buildqueue.backends.bundles import (
    Bundle,
    bundle_exists,
    bundle_folder,
    clear_leftovers,
    list_bundles,
    make_reference,
    open_folder,
    publish_bundle,
    read_bundle,
    remove_bundle,
)
from buildqueue.exceptions import Rejected, Unavailable

DIGEST = "sha256:" + "ab" * 32


def published(root: Path, *, target: str = "t", version: str = "1.0.0") -> Bundle:
    reference = make_reference(target, version, DIGEST)
    with open_folder(root, reference) as folder:
        folder.mkdir()
        bundle = Bundle(
            reference=reference,
            digest=DIGEST,
            argv=("python", "main.py"),
            env={"A": "1"},
            workdir=str(folder / "app"),
            ports=(8000,),
            python="/usr/bin/python3",
            created="2026-01-01T00:00:00+00:00",
            size_bytes=1,
            folder=str(folder),
        )
        publish_bundle(bundle)
    return bundle


def test_what_was_published_is_read_back(tmp_path: Path) -> None:
    bundle = published(tmp_path)

    assert read_bundle(tmp_path, bundle.reference) == bundle
    assert bundle_folder(tmp_path, bundle.reference).name == "1.0.0-" + "ab" * 6


def test_a_folder_without_its_description_is_no_bundle(tmp_path: Path) -> None:
    reference = make_reference("t", "1.0.0", DIGEST)
    with open_folder(tmp_path, reference) as folder:
        folder.mkdir()

    assert not bundle_exists(tmp_path, reference)
    with pytest.raises(Rejected, match="build it again") as caught:
        read_bundle(tmp_path, reference)
    assert caught.value.code == "artifact_missing"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"argv": 1}'])
def test_a_torn_description_is_no_bundle(content: str, tmp_path: Path) -> None:
    bundle = published(tmp_path)
    (Path(bundle.folder) / "bundle.json").write_text(content)

    assert not bundle_exists(tmp_path, bundle.reference)
    assert list_bundles(tmp_path) == []


def test_a_reference_with_another_digest_is_missing(tmp_path: Path) -> None:
    """The folder's name holds twelve digits of it, the reference all."""
    published(tmp_path)
    other = make_reference("t", "1.0.0", "sha256:" + "ab" * 31 + "cd")

    assert not bundle_exists(tmp_path, other)


def test_removal_is_idempotent(tmp_path: Path) -> None:
    bundle = published(tmp_path)

    remove_bundle(tmp_path, bundle.reference)
    remove_bundle(tmp_path, bundle.reference)

    assert not bundle_exists(tmp_path, bundle.reference)
    assert not Path(bundle.folder).exists()


def test_bundles_are_listed_by_target_and_age(tmp_path: Path) -> None:
    first = published(tmp_path, version="2.0.0")
    second = published(tmp_path, version="1.0.0")
    publish_bundle(replace(second, created="2026-02-01T00:00:00+00:00"))
    published(tmp_path, target="other")

    listed = [bundle.reference for bundle in list_bundles(tmp_path, "t")]

    assert listed == [first.reference, second.reference]
    assert len(list_bundles(tmp_path)) == 3


@pytest.mark.parametrize(
    ("target", "version"),
    [
        ("../x", "1"),
        ("", "1"),
        ("a/b", "1"),
        ("t", ""),
        ("t", ".."),
        ("t", "1/2"),
        ("t", "1@2"),
        ("t\n", "1"),
        ("t", "1\0"),
        ("-t", "1"),
        ("t", "x" * 200),
    ],
)
def test_names_that_make_no_folder_are_refused(target: str, version: str) -> None:
    with pytest.raises(Rejected) as caught:
        make_reference(target, version, DIGEST)

    assert caught.value.code == "invalid_reference"


@pytest.mark.parametrize("reference", ["", "local:t/1", "docker:t/1@" + DIGEST])
def test_other_backends_references_are_refused(reference: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected):
        remove_bundle(tmp_path, reference)


def test_two_builders_of_a_target_do_not_meet(tmp_path: Path) -> None:
    first, second = (make_reference("t", version, DIGEST) for version in "12")

    with (
        open_folder(tmp_path, first),
        pytest.raises(Unavailable) as caught,
        open_folder(tmp_path, second),
    ):
        pass

    assert caught.value.code == "bundle_busy"


def test_the_lock_ends_with_the_builder(tmp_path: Path) -> None:
    reference = make_reference("t", "1", DIGEST)

    with open_folder(tmp_path, reference):
        pass
    with open_folder(tmp_path, reference) as folder:
        assert folder.parent.is_dir()


def test_leftovers_are_cleared_and_bundles_kept(tmp_path: Path) -> None:
    bundle = published(tmp_path)
    dead = Path(bundle.folder).parent / "0.9.0-dead"
    (dead / "venv").mkdir(parents=True)

    clear_leftovers(dead.parent)

    assert not dead.exists()
    assert bundle_exists(tmp_path, bundle.reference)
