"""Is what git lists and gives checked here again, however git came to it?"""

from __future__ import annotations

import pytest

from buildqueue.backends.gitfiles import Contents
from buildqueue.backends.gittree import Item, check_names, link_target, parse_item
from buildqueue.exceptions import Rejected

AT = "0123456789abcdef0123456789abcdef01234567"


def item(path: str, *, mode: str = "100644", size: int = 1) -> Item:
    return Item(mode=mode, object_id=AT, size=size, path=path)


def test_a_record_is_taken_apart() -> None:
    record = f"100755 blob {AT}     12\ta/ü \t.py".encode()

    assert parse_item(record) == item("a/ü \t.py", mode="100755", size=12)
    assert parse_item(f"160000 commit {AT}       -\tlib".encode()).size == 0


@pytest.mark.parametrize(
    "record",
    [
        b"100644 blob 01 1\ta\xff",
        b"100600 blob 01 1\ta",
        b"040000 blob 01 1\ta",
        b"120000 tree 01 -\ta",
        b"060000 blob 01 1\tdevice",
        b"garbage",
        b"",
    ],
)
def test_a_record_of_another_kind_is_refused(record: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        parse_item(record)

    assert caught.value.code == "git_name_refused"


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../a", "a/../b", "a/./b", "./a", "a//b", "a/"),
        *(".git", ".git/config", "a/.GIT/config", ".gIt", "GIT~1"),
        *("a\nb", "a\x1bb", "a\u202eb", "a\\b", "C:a", "x" * 256, "a/" * 600 + "a"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(Rejected) as caught:
        check_names([item("main.py"), item(path)])

    assert caught.value.code == "git_name_refused"


def test_a_file_in_the_place_of_a_folder_is_refused() -> None:
    with pytest.raises(Rejected) as caught:
        check_names([item("a"), item("a/b")])

    assert caught.value.code == "git_name_refused"


def test_usual_names_are_taken() -> None:
    names = [
        ".gitignore",
        ".github/workflows/ci.yml",
        "a/.gitmodules",
        "ü",
        "a b",
        "..a",
    ]

    check_names([item(name) for name in names])


@pytest.mark.parametrize(
    ("path", "target", "found"),
    [
        ("link", "a/b", "a/b"),
        ("a/link", "../c", "c"),
        ("a/link", "./b", "a/b"),
        ("link", "a/../c", "c"),
    ],
)
def test_a_link_is_followed_to_a_file_of_the_commit(
    path: str, target: str, found: str
) -> None:
    items = {each: item(each) for each in ("a/b", "c")}

    assert link_target(path, target, items) == items[found]


@pytest.mark.parametrize(
    "target",
    ["..", "../c", "../../c", "/c", "/", "folder", "module", ".", "", "nothing", "c/d"],
)
def test_any_other_link_is_refused(target: str) -> None:
    items = {
        "c": item("c"),
        "folder": item("folder", mode="040000"),
        "module": item("module", mode="160000"),
    }

    with pytest.raises(Rejected) as caught:
        link_target("link", target, items)

    assert caught.value.code == "git_link_refused"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_contents_are_cut_where_the_list_says_whatever_the_chunks(size: int) -> None:
    bodies = {
        "a": b"",
        "b": b"one\ntwo\n",
        "c": f"{AT} blob 3\nxyz\n".encode(),
        "d": b"",
    }
    items = [item(name, size=len(body)) for name, body in bodies.items()]
    output = b"".join(
        f"{AT} blob {len(body)}\n".encode() + body + b"\n" for body in bodies.values()
    )
    found: dict[str, bytes] = {}

    def take(which: Item, piece: bytes) -> None:
        found[which.path] = found.get(which.path, b"") + piece

    contents = Contents(items, take)
    for start in range(0, len(output), size):
        contents.feed(output[start : start + size])
    contents.finish()

    assert found == bodies


@pytest.mark.parametrize(
    "output",
    [
        b"",
        f"{AT} missing\n".encode(),
        f"{AT} blob 4\nabcd\n".encode(),
        f"{AT} tree 3\nabc\n".encode(),
        f"{AT} blob 3\nab".encode(),
    ],
)
def test_contents_that_are_not_as_listed_are_refused(output: bytes) -> None:
    def read() -> None:
        contents = Contents([item("a", size=3)], lambda which, piece: None)
        contents.feed(output)
        contents.finish()

    with pytest.raises(Rejected, match="missing or damaged"):
        read()
