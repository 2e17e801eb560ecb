"""Is a secret never printed, however the output is cut and whatever form it takes?"""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buildqueue.backends.masking import Masker

TOKEN = 'k3y/with+odd "signs" & ünïcode'
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQE=\n-----END KEY-----\n"

# Few characters, so that secrets overlap, repeat, contain each other and the mark.
letters = st.text(alphabet="ab*\n", max_size=8)
secrets = st.lists(st.text(alphabet="ab*", min_size=3, max_size=7), max_size=4)


def _streamed(masker: Masker, pieces: list[str]) -> str:
    stream = masker.stream()
    return "".join([*map(stream.feed, pieces), stream.flush()])


@given(
    values=secrets,
    plan=st.lists(st.one_of(letters, st.integers(0, 3)), max_size=10),
    cuts=st.lists(st.integers(0, 60), max_size=10),
)
def test_a_stream_says_what_the_whole_text_says_and_never_a_secret(
    values: list[str], plan: list[str | int], cuts: list[int]
) -> None:
    parts = [
        (values[part % len(values)] if values else "")
        if isinstance(part, int)
        else part
        for part in plan
    ]
    text = "".join(parts)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(places)]
    masker = Masker(values)

    said = _streamed(masker, pieces)

    assert said == masker.mask(text)
    assert not [value for value in values if len(value) >= 4 and value in said]


@given(values=secrets, text=st.text(alphabet="ab*", max_size=40))
@example(values=["abab"], text="ababab")
@example(values=["abbbba", "bbbb"], text="abbbb")
def test_exactly_what_belongs_to_a_secret_is_replaced(
    values: list[str], text: str
) -> None:
    """Against the plain way: mark every character of every place, then cut."""
    masker = Masker(values)
    needles, mark = masker._needles, masker._mark
    hidden = {
        place + i
        for needle in needles
        for place in range(len(text) - len(needle) + 1)
        if text.startswith(needle, place)
        for i in range(len(needle))
    }
    plain = "".join(
        char if i not in hidden else "" if i - 1 in hidden else mark
        for i, char in enumerate(text)
    )

    assert masker.mask(text) == plain


@pytest.mark.parametrize(
    "form",
    [
        TOKEN,
        quote(TOKEN),
        quote(TOKEN, safe=""),
        quote_plus(TOKEN),
        json.dumps(TOKEN),
        json.dumps(TOKEN, ensure_ascii=False),
        base64.b64encode(TOKEN.encode()).decode(),
        base64.urlsafe_b64encode(TOKEN.encode()).decode(),
        base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("="),
        TOKEN.encode().hex(),
        TOKEN.encode().hex().upper(),
        TOKEN.encode().decode("latin-1"),
        quote(TOKEN, safe="").lower(),
    ],
)
def test_a_secret_in_another_form_is_masked(form: str) -> None:
    said = Masker([TOKEN]).mask(f"before {form} after")

    assert said in {"before *** after", 'before "***" after'}


@pytest.mark.parametrize("value", [TOKEN, 'it\'s "so" \\ \x1b\tü', "plain-and-long"])
def test_a_secret_as_python_prints_it_is_masked(value: str) -> None:
    masker = Masker([value])

    for printed in (repr(value), ascii(value), str({"a": value}), repr(value.encode())):
        assert "***" in masker.mask(printed)
        assert value.partition(" ")[0] not in masker.mask(printed)
    assert masker.mask(str([value]))[2:-2] == "***"


def test_a_document_is_masked_in_its_names_and_values() -> None:
    masker = Masker([TOKEN])

    said = masker.mask_all({"a": [1, None, f"-{TOKEN}-"], TOKEN: {"b": True}})

    assert said == {"a": [1, None, "-***-"], "***": {"b": True}}


@pytest.mark.parametrize("user", ["u", "us", "use", "user"])
def test_a_secret_in_the_midst_of_base64_is_masked(user: str) -> None:
    header = base64.b64encode(f"{user}:hunter2hunter2:end".encode()).decode()

    said = Masker(["hunter2hunter2"]).mask(f"Authorization: Basic {header}")

    left = said.removeprefix("Authorization: Basic ")
    assert "***" in left
    assert len(left) < len(header) - 12
    for start in range(len(left)):
        tail = left[start:].replace("*", "")
        padded = tail[: len(tail) // 4 * 4]
        assert b"hunter2" not in base64.b64decode(padded)


def test_each_long_line_of_a_secret_is_masked_by_itself() -> None:
    masker = Masker([PEM])

    assert [masker.mask(line) for line in PEM.splitlines()] == ["***"] * 4
    assert masker.mask(f"key: {PEM}!") == "key: ***!"
    assert masker.mask(json.dumps(PEM)) == '"***"'


def test_a_value_shorter_than_four_characters_is_left() -> None:
    assert Masker(["", "abc", "abcd"]).mask("abc abcd") == "abc ***"


def test_without_secrets_nothing_changes() -> None:
    assert Masker([]).mask("*** \x1b[31mred\x1b[0m") == "*** \x1b[31mred\x1b[0m"


def test_secrets_that_overlap_are_masked_whole() -> None:
    assert Masker(["abcd", "cdef"]).mask("abcdef") == "***"


def test_a_stream_holds_back_only_what_may_become_a_secret() -> None:
    stream = Masker(["secret-value"]).stream()

    assert stream.feed("at once\n") == "at once\n"
    assert stream.feed("now secr") == "now "
    assert stream.feed("et agent") == "secret agent"
    assert stream.feed(" secret-") == " "
    assert stream.feed("value.") == "***."
    assert stream.feed("sec") == ""
    assert stream.flush() == "sec"


def test_a_mark_never_completes_a_secret() -> None:
    said = Masker(["hidden", "a***b"]).mask("ahiddenb")

    assert "a***b" not in said
    assert "hidden" not in said


def test_a_masker_shows_no_secret_when_it_is_printed() -> None:
    masker = Masker(["open-sesame"])

    assert "sesame" not in repr(masker) + repr(masker.stream())


def test_a_secret_whose_tab_was_made_spaces_is_masked_part_by_part() -> None:
    masker = Masker(["first-part\tsecond-part"])

    told = masker.mask("it is first-part      second-part.")

    assert told == "it is ***      ***."
