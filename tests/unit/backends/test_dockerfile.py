"""Is a Dockerfile's syntax read as a container engine reads it?"""

from __future__ import annotations

import pytest

from buildqueue.backends.dockerfile import Instruction, expand, read_instructions
from buildqueue.exceptions import Rejected


def read(text: str) -> list[tuple[int, str, str]]:
    found = read_instructions(text.encode())
    return [(one.line, one.name, one.rest) for one in found]


def one(text: str) -> Instruction:
    (instruction,) = read_instructions(text.encode())
    return instruction


def test_comments_and_empty_lines_are_no_instructions() -> None:
    text = "# syntax=docker/dockerfile:1\n\n  # a comment\nFROM python\n\n#\nCMD x\n"

    assert read(text) == [(4, "FROM", "python"), (7, "CMD", "x")]


def test_a_continued_instruction_has_the_number_of_its_first_line() -> None:
    text = "FROM python\nENV A=1 \\\n  # between\n\n  B=2 \\\n  C=3\nCMD x"

    assert read(text)[1:] == [(2, "ENV", "A=1 B=2 C=3"), (7, "CMD", "x")]


def test_the_escape_directive_changes_the_continuation() -> None:
    assert read("# escape=`\nENV A=1 `\n B=2\\\nCMD x") == [
        (2, "ENV", "A=1 B=2\\"),
        (4, "CMD", "x"),
    ]


def test_an_escape_directive_after_an_instruction_is_a_comment() -> None:
    assert read("FROM a\n# escape=`\nENV A=1 \\\n B=2")[1] == (3, "ENV", "A=1 B=2")


def test_an_escape_directive_of_another_character_is_refused() -> None:
    with pytest.raises(Rejected, match="escape directive"):
        read("# escape=x\nFROM python")


@pytest.mark.parametrize("text", ["from\tpython", "From python", "FROM  python  "])
def test_case_and_spaces_do_not_matter(text: str) -> None:
    assert read(text) == [(1, "FROM", "python")]


def test_windows_line_ends_and_a_byte_order_mark_are_read() -> None:
    assert read("\ufeffFROM python\r\nCMD a \\\r\n b\r\n") == [
        (1, "FROM", "python"),
        (2, "CMD", "a b"),
    ]


def test_flags_are_told_from_the_rest() -> None:
    instruction = one("COPY --link --chown=a:b . /app")

    assert instruction.flags == (("link", ""), ("chown", "a:b"))
    assert instruction.rest == ". /app"


def test_a_commands_own_flags_stay_with_it() -> None:
    assert one("CMD --help me").rest == "--help me"


def test_the_json_form_is_told_from_the_shell_form() -> None:
    assert one('CMD ["a", "b c"]').json_form() == ["a", "b c"]
    assert one("CMD ['a']").json_form() is None
    assert one("CMD [1]").json_form() is None
    assert one("CMD " + "[" * 5000).json_form() is None


@pytest.mark.parametrize(
    "text", ["RUN <<EOF\necho\nEOF", "COPY <<-'X' /a\nX", "RUN cat <<A > /b\nA"]
)
def test_a_here_document_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(Rejected, match=r"line 2: a here-document") as caught:
        read(f"FROM python\n{text}")

    assert caught.value.code == "needs_container_backend"


@pytest.mark.parametrize(
    "content", [b"FROM \xff\xfe", b"# " + b"x" * 70_000, b"F-ROM python", b"{}"]
)
def test_what_no_builder_takes_is_refused(content: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        read_instructions(content)

    assert caught.value.code == "dockerfile_invalid"


def test_unbalanced_quotes_are_refused_with_the_line() -> None:
    with pytest.raises(Rejected, match="Dockerfile line 1: ENV cannot be read"):
        one('ENV A="b').words()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A/x", "1/x"),
        ("${A}x", "1x"),
        ("$AB", ""),
        ("${NO:-other}", "other"),
        ("${A:-other}", "1"),
        ("${A:+set}${NO:+set}", "set"),
        (r"\$A", "$A"),
        ("100$", "100$"),
    ],
)
def test_variables_are_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


def test_a_variable_that_doubles_itself_is_stopped() -> None:
    with pytest.raises(Rejected, match="huge"):
        expand("$A$A", {"A": "x" * 40_000})


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud800"])
def test_a_word_that_no_program_can_be_given_is_refused(escape: str) -> None:
    with pytest.raises(Rejected, match="line 1: CMD holds NUL or half a character"):
        one(f'CMD ["python", "a{escape}b"]').json_form()


def test_a_dockerfile_with_nul_is_refused() -> None:
    with pytest.raises(Rejected, match="holds NUL"):
        read("FROM python\nENV A=\0")
