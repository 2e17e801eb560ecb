"""Is a hostile tree measured, copied and removed without being followed?"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from buildqueue.backends.trees import (
    copy_tree,
    digest_tree,
    make_passable,
    remove_tree,
    size_of,
)
from buildqueue.exceptions import Rejected


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "a").mkdir(parents=True)
    (root / "a/b.txt").write_text("b")
    (root / "main.py").write_text("1")
    (root / "run.sh").write_text("#!/bin/sh")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a/b.txt")
    return root


def test_the_digest_is_the_contents_and_not_the_places(
    source: Path, tmp_path: Path
) -> None:
    copy_tree(source, tmp_path / "copy")

    assert digest_tree(tmp_path / "copy") == digest_tree(source)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "main.py").write_text("2"),
        lambda root: (root / "main.py").chmod(0o755),
        lambda root: (root / "main.py").rename(root / "other.py"),
        lambda root: (root / "empty").mkdir(),
        lambda root: ((root / "link").unlink(), (root / "link").symlink_to("main.py")),
    ],
    ids=["content", "mode", "name", "folder", "link"],
)
def test_every_change_changes_the_digest(
    change: Callable[[Path], object], source: Path
) -> None:
    before = digest_tree(source)

    change(source)

    assert digest_tree(source) != before


def test_a_repositorys_history_is_left_out(source: Path, tmp_path: Path) -> None:
    before = digest_tree(source)
    (source / ".git").mkdir()
    (source / ".git/config").write_text("token")

    copy_tree(source, tmp_path / "copy")

    assert digest_tree(source) == before
    assert not (tmp_path / "copy/.git").exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "b/../../../x"])
def test_a_link_that_leads_out_is_refused(target: str, source: Path) -> None:
    (source / "a/out").symlink_to(target)

    with pytest.raises(Rejected) as caught:
        digest_tree(source)

    assert caught.value.code == "link_leaves_source"


def test_a_pipe_is_refused(source: Path) -> None:
    os.mkfifo(source / "pipe")

    with pytest.raises(Rejected) as caught:
        digest_tree(source)

    assert caught.value.code == "special_file_refused"


def test_a_bottomless_tree_is_refused_and_can_be_removed(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    fd = os.open(root, os.O_RDONLY)
    # More levels than Python recurses, and a path longer than the system takes.
    for _ in range(3000):
        os.mkdir("d" * 10, dir_fd=fd)
        below = os.open("d" * 10, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)

    with pytest.raises(Rejected) as caught:
        digest_tree(root)
    remove_tree(root)

    assert caught.value.code == "tree_too_deep"
    assert not root.exists()


def test_closed_folders_can_be_removed(source: Path) -> None:
    (source / "a").chmod(0o000)
    source.chmod(0o500)

    remove_tree(source)

    assert not source.exists()


def test_removal_does_not_follow_links(source: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("1")
    (source / "out").symlink_to(outside)

    remove_tree(source)
    remove_tree(source)

    assert (outside / "kept").read_text() == "1"


def test_size_counts_files_once_and_links_not(source: Path) -> None:
    assert size_of(source) == len("b") + len("1") + len("#!/bin/sh")


def test_a_passable_folder_ignores_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make_passable(tmp_path / "a/b")
    finally:
        os.umask(before)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o711
