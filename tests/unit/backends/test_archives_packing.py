"""Is a packed tree the same bytes each time, and the same tree when unpacked?"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buildqueue.backends.archives import extract_archive, inspect_archive, pack_tree
from buildqueue.exceptions import Rejected, Unavailable

TREE = {
    "main.py": b"print()",
    "a/b/c.txt": bytes(range(256)) * 500,
    "a.txt": b"",
    "données/été.py": b"x",
    "d/" + "e" * 200: b"long",
    "-rf": b"x",
}


def make_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def listing(root: Path) -> dict[str, tuple[str, bytes]]:
    """Return each path with its kind and content."""
    found = {}
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        kind = "program" if mode & 0o100 else "file"
        found[path.relative_to(root).as_posix()] = (
            ("folder", b"") if stat.S_ISDIR(mode) else (kind, path.read_bytes())
        )
    return found


def test_extracting_a_packed_tree_gives_the_tree_back(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", TREE)
    (tree / "a/empty").mkdir()
    (tree / "main.py").chmod(0o700)

    pack_tree(tree, tmp_path / "packed")
    report = extract_archive(tmp_path / "packed", tmp_path / "out")

    assert listing(tmp_path / "out") == listing(tree)
    assert report.format == "tar.gz"
    assert report.files == tuple(sorted(TREE))


def test_a_single_folder_of_the_trees_own_is_kept(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"src/main.py": b"1"})

    pack_tree(tree, tmp_path / "packed")
    extract_archive(tmp_path / "packed", tmp_path / "out")

    assert listing(tmp_path / "out") == listing(tree)


part = st.text("abzé .-_", min_size=1, max_size=6).filter(
    lambda name: name.strip(".") and not name.startswith("._")
)
paths = st.lists(part, min_size=1, max_size=4).map("/".join)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(paths, st.binary(max_size=2000), min_size=1, max_size=6))
def test_packing_and_extracting_is_the_identity(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = make_tree(Path(folder, "tree"), files)
        except OSError:
            return  # a file in a folder's place: no tree

        pack_tree(tree, Path(folder, "packed"))
        extract_archive(Path(folder, "packed"), Path(folder, "out"))

        assert listing(Path(folder, "out")) == listing(tree)


def test_the_same_tree_is_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the order it was made in, its times, owners' names and place."""
    one = make_tree(tmp_path / "one", TREE)
    two = make_tree(tmp_path / "deep/two", dict(reversed(TREE.items())))
    for path in two.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(path.stat().st_mode & ~0o077)

    pack_tree(one, tmp_path / "1.tar.gz")
    pack_tree(two, tmp_path / "another name")

    packed = (tmp_path / "1.tar.gz").read_bytes()
    assert packed == (tmp_path / "another name").read_bytes()


@pytest.mark.parametrize("change", ["content", "name", "program", "folder"])
def test_another_tree_is_other_bytes(change: str, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", TREE)
    pack_tree(tree, tmp_path / "before")
    match change:
        case "content":
            (tree / "main.py").write_bytes(b"Print()")
        case "name":
            (tree / "main.py").rename(tree / "Main.py")
        case "program":
            (tree / "main.py").chmod(0o755)
        case _:
            (tree / "empty").mkdir()

    pack_tree(tree, tmp_path / "after")

    assert (tmp_path / "before").read_bytes() != (tmp_path / "after").read_bytes()


def test_no_header_tells_when_or_by_whom_it_was_packed(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", TREE)

    pack_tree(tree, tmp_path / "packed")

    assert (tmp_path / "packed").read_bytes()[4:8] == bytes(4)
    with tarfile.open(tmp_path / "packed") as archive:
        headers = archive.getmembers()
    assert {(h.mtime, h.uid, h.gid, h.uname, h.gname) for h in headers} == {
        (0, 0, 0, "", "")
    }
    assert {header.mode for header in headers} == {0o644, 0o755}


def test_what_an_extraction_drops_is_not_packed(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path / "tree", {"main.py": b"", ".git/config": b"x", "a/.DS_Store": b"x"}
    )

    pack_tree(tree, tmp_path / "packed")

    assert inspect_archive(tmp_path / "packed").files == ("main.py",)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda tree: (tree / "l").symlink_to("main.py"), "archive_link"),
        (lambda tree: (tree / "l").symlink_to("/etc"), "archive_link"),
        (lambda tree: os.mkfifo(tree / "pipe"), "archive_special_file"),
        (lambda tree: (tree / "a\nb").touch(), "archive_unsafe_name"),
        (lambda tree: (tree / "MAIN.py").touch(), "archive_duplicate"),
        (lambda tree: (tree / ".GIT").mkdir(), "archive_unsafe_name"),
        (lambda tree: (tree / "main.py").unlink(), "archive_empty"),
        (lambda tree: (tree / "\udcff").touch(), "archive_unsafe_name"),
    ],
    ids=["link", "link out", "pipe", "name", "case", "git", "empty", "no UTF-8"],
)
def test_what_an_extraction_would_refuse_is_not_packed(
    spoil: object, code: str, tmp_path: Path
) -> None:
    tree = make_tree(tmp_path / "tree", {"main.py": b""})
    spoil(tree)  # type: ignore[operator]

    with pytest.raises(Rejected) as caught:
        pack_tree(tree, tmp_path / "packed")

    assert caught.value.code == code
    assert not (tmp_path / "packed").exists()


def test_a_file_in_the_way_is_kept(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", {"main.py": b""})
    (tmp_path / "packed").write_text("mine")

    with pytest.raises(FileExistsError):
        pack_tree(tree, tmp_path / "packed")

    assert (tmp_path / "packed").read_text() == "mine"


@pytest.mark.parametrize(
    ("tree", "file"), [("absent", "packed"), ("tree", "absent/packed")]
)
def test_what_is_not_there_is_not_the_owners_fault(
    tree: str, file: str, tmp_path: Path
) -> None:
    make_tree(tmp_path / "tree", {"main.py": b""})

    with pytest.raises(Unavailable) as caught:
        pack_tree(tmp_path / tree, tmp_path / file)

    assert caught.value.code == "archive_not_packed"


def test_a_file_that_shrinks_meanwhile_leaves_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(tmp_path / "tree", {"main.py": b"12345"})
    real = os.open

    def shrinking(path: Path, flags: int, *rest: int) -> int:
        os.truncate(path, 2)
        return real(path, flags, *rest)

    monkeypatch.setattr("buildqueue.backends.packing.os.open", shrinking)

    with pytest.raises(Unavailable) as caught:
        pack_tree(tree, tmp_path / "packed")

    assert caught.value.code == "archive_not_packed"
    assert not (tmp_path / "packed").exists()


KILLED_AT_ITS_SECOND_FILE = """
import os, signal, sys
from pathlib import Path
from buildqueue.backends import packing

add = packing._add

def dying(archive, path, entry):
    if path.name == "second":
        archive.fileobj.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    add(archive, path, entry)

packing._add = dying
packing.pack_tree(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_a_packer_that_is_killed_leaves_nothing_that_passes_for_an_archive(
    tmp_path: Path,
) -> None:
    content = os.urandom(100_000)
    tree = make_tree(tmp_path / "tree", {"first": content, "second": content})
    packed = tmp_path / "packed"

    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_ITS_SECOND_FILE, str(tree), str(packed)],
        check=False,
    )

    assert done.returncode == -signal.SIGKILL
    assert packed.stat().st_size > 0
    with pytest.raises(Rejected) as caught:
        inspect_archive(packed)
    assert caught.value.code == "archive_corrupt"
    packed.unlink()
    pack_tree(tree, packed)
    assert inspect_archive(packed).files == ("first", "second")
