"""Is a file of variables read as it is written, and a wrong one refused without a value?"""

from __future__ import annotations

from pathlib import Path

import pytest

from buildqueue.management.nouns import dotenv

SECRET = "xyzzy-plugh"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("A=1\nB=2\n", {"A": "1", "B": "2"}),
        ("\n# A=1\n   # B=2\n\nC=3", {"C": "3"}),
        ("export A=1\nexport  B = 2", {"A": "1", "B": "2"}),
        ("A=", {"A": ""}),
        ("A= x y \r\nB=2\r\n", {"A": "x y", "B": "2"}),
        ("A=' x '\nB=\"y\"", {"A": " x ", "B": "y"}),
        ("A=a=b=c", {"A": "a=b=c"}),
        ("A=x # y", {"A": "x # y"}),
        (r"A=\n$HOME`id`", {"A": r"\n$HOME`id`"}),
        ("A=''", {"A": ""}),
        ("A=it's", {"A": "it's"}),
        ("A=one\u2028two", {"A": "one\u2028two"}),
    ],
)
def test_a_text_has_these_variables(text: str, found: dict[str, str]) -> None:
    assert dotenv.parse(text, "file") == found


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (f"A=1\n{SECRET}", 2, "must be NAME=value"),
        (f"1A={SECRET}", 1, "must be NAME=value"),
        (f"A-B={SECRET}", 1, "must be NAME=value"),
        (f"={SECRET}", 1, "must be NAME=value"),
        (f"A=1\n\n# x\nA={SECRET}", 4, "A is there twice"),
        (f"A='{SECRET}", 1, "not closed"),
        ('A="', 1, "not closed"),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(text: str, line: int, why: str) -> None:
    with pytest.raises(dotenv.BadFile) as told:
        dotenv.parse(text, "my.env")

    assert str(told.value).startswith(f"my.env, line {line}: ")
    assert why in str(told.value)
    assert SECRET not in str(told.value)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "my.env"
    file.write_bytes(b"\xef\xbb\xbfA=1\n")

    assert dotenv.read(str(file)) == {"A": "1"}


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"A=\xff\n", "no text in UTF-8"), (b"#" * (1024 * 1024 + 1), "larger than")],
)
def test_what_is_no_file_of_variables_is_refused(
    content: bytes, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "my.env"
    file.write_bytes(content)

    with pytest.raises(dotenv.BadFile, match=why):
        dotenv.read(str(file))


@pytest.mark.parametrize("name", ["", "missing.env"])
def test_a_file_that_cannot_be_opened_is_named(name: str, tmp_path: Path) -> None:
    place = str(tmp_path / name)

    with pytest.raises(dotenv.BadFile) as told:
        dotenv.read(place)

    assert "cannot be read" in str(told.value)
    assert place.rstrip("/") in str(told.value)
