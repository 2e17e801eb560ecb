"""Is a job's log shown as it was printed, once, and safely?"""

from __future__ import annotations

import re
import uuid

import pytest
from django.test import Client

from buildqueue.admin import joblog, loglines
from buildqueue.admin.ansi import MAX_LINE, Pen, segments
from buildqueue.models import BuildJob, LogChunk
from tests.factories import make_job

from .conftest import Login
from .pages import JOBS, html_of, page_of, text_of


def chunk(
    job: BuildJob, seq: int, text: str, *, attempt: int = 1, **fields: str
) -> LogChunk:
    run = uuid.uuid5(job.pk, str(attempt))
    told = {"stream": "stdout", "text": text} | fields
    return LogChunk.objects.create(
        job_id=job.pk, run_id=run, attempt=attempt, seq=seq, **told
    )


def live_url(job: BuildJob, since: str = "0.0") -> str:
    return f"{JOBS}{job.pk}/log/?since={since}"


def lines_of(answer: dict[str, object]) -> list[str]:
    return ["".join(text for text, _ in line["segments"]) for line in answer["lines"]]


def test_a_reader_that_goes_on_from_its_position_misses_and_repeats_nothing(
    root: Client,
) -> None:
    job = make_job("in_progress")
    chunk(job, 1, "one\ntwo\n")
    first = root.get(live_url(job)).json()
    chunk(job, 2, "three\n")
    second = root.get(live_url(job, first["position"])).json()

    assert lines_of(first) == ["one", "two"]
    assert lines_of(second) == ["three"]
    assert (first["ended"], second["position"]) == (False, "1.2")


def test_nothing_new_is_told_in_no_words(root: Client) -> None:
    job = make_job("in_progress")
    chunk(job, 1, "one\n")
    first = root.get(live_url(job, "1.1"))

    same = root.get(live_url(job, "1.1"), headers={"If-None-Match": first["ETag"]})

    assert first.status_code == 200
    assert (same.status_code, same.content) == (304, b"")


@pytest.mark.parametrize("change", ["line", "status"])
def test_something_new_is_told_although_the_reader_has_a_tag(
    root: Client, change: str
) -> None:
    job = make_job("pending")
    tag = root.get(live_url(job))["ETag"]
    if change == "line":
        chunk(job, 1, "new\n")
    else:
        BuildJob.objects.filter(pk=job.pk).update(attempt=1)

    answer = root.get(live_url(job), headers={"If-None-Match": tag})

    assert answer.status_code == 200


def test_the_end_of_the_job_is_told(root: Client) -> None:
    assert root.get(live_url(make_job("done"))).json()["ended"] is True


def test_a_long_answer_says_that_there_is_more(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joblog, "LIVE_CHUNKS", 1)
    job = make_job()
    chunk(job, 1, "a\n")
    chunk(job, 2, "b\n")

    answer = root.get(live_url(job)).json()

    assert (answer["more"], answer["position"]) == (True, "1.1")


@pytest.mark.parametrize(
    "since", ["x", "1.x", "-1.0", "1e9.0", "99999999999.1", "1.2.3"]
)
def test_a_position_that_is_none_is_refused(root: Client, since: str) -> None:
    assert root.get(live_url(make_job(), since)).status_code == 400


@pytest.mark.parametrize("address", ["log/", "log/raw/"])
def test_the_log_needs_its_permission(login: Login, address: str) -> None:
    job = make_job()
    without, seer = login("view_buildjob"), login("view_log")
    both = login("view_buildjob", "view_log")

    assert without.get(f"{JOBS}{job.pk}/{address}").status_code == 403
    assert seer.get(f"{JOBS}{job.pk}/{address}").status_code == 403
    assert both.get(f"{JOBS}{job.pk}/{address}").status_code == 200
    assert both.get(f"{JOBS}{uuid.uuid4()}/{address}").status_code == 404


def test_the_download_is_the_whole_log_as_plain_text(root: Client) -> None:
    job = make_job()
    for seq in range(1, joblog.FEW_CHUNKS + 3):
        chunk(job, seq, f"\x1b[31m{seq}\n")

    answer = root.get(f"{JOBS}{job.pk}/log/raw/")
    text = b"".join(answer.streaming_content).decode()

    assert text == "".join(f"\x1b[31m{n}\n" for n in range(1, joblog.FEW_CHUNKS + 3))
    assert answer["Content-Type"].startswith("text/plain")
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_the_page_marks_streams_and_attempts_in_words(root: Client) -> None:
    job = make_job()
    chunk(job, 1, "plain\n")
    chunk(job, 2, "oops\n", stream="stderr")
    chunk(job, 1, "hello\n", stream="system", attempt=2)

    page = text_of(root.get(page_of(job)))

    assert "attempt 1 plain err oops attempt 2 sys hello" in page


def test_the_page_heads_each_step_once(root: Client) -> None:
    job = make_job()
    chunk(job, 1, "before\n")
    chunk(job, 2, "==> build\npip\n", step="build")
    chunk(job, 3, "oops\n", step="build", stream="stderr")
    chunk(job, 4, "==> start <b>\nup\n", step="start <b>")

    page = html_of(root.get(page_of(job))).split('role="log"')[1].split("</pre>")[0]

    heads = re.findall(r'bq-step"[^>]*>([^<]*)<', page)
    assert heads == ["==&gt; build", "==&gt; start &lt;b&gt;"]


def test_a_log_that_is_shown_from_the_middle_of_a_step_begins_with_its_name(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joblog, "SHOWN_LINES", 2)
    job = make_job()
    chunk(job, 1, "==> build\none\n", step="build")
    chunk(job, 2, "two\nthree\n", step="build")

    page = text_of(root.get(page_of(job)))

    assert "attempt 1 ==> build two three" in page


def test_the_live_answer_tells_the_step_of_each_line(root: Client) -> None:
    job = make_job()
    chunk(job, 1, "before\n")
    chunk(job, 2, "==> build\n==> build\n", step="build")

    told = root.get(live_url(job)).json()["lines"]

    assert [(line["step"], line["heads"]) for line in told] == [
        (None, False),
        ("build", True),
        ("build", False),
    ]


def test_the_page_shows_the_last_lines_and_says_so(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joblog, "SHOWN_LINES", 2)
    job = make_job()
    chunk(job, 1, "first\nsecond\nthird\n")

    page = text_of(root.get(page_of(job)))

    assert "These are the last 2 lines" in page
    assert "first" not in page.split("These are the last")[1].split("Runs")[0]


def test_a_line_may_come_in_many_chunks() -> None:
    few = [
        LogChunk(attempt=1, stream="stdout", text=f"{n}", seq=n) for n in range(1, 4)
    ]

    lines = list(loglines.lines_of(few))

    assert len(lines) == 1
    assert lines[0].segments == [("123", "")]
    assert lines[0].ended is False


def test_a_line_is_joined_only_within_its_stream() -> None:
    chunks = [
        LogChunk(attempt=1, stream="stdout", text="a", seq=1),
        LogChunk(attempt=1, stream="stderr", text="b\n", seq=2),
        LogChunk(attempt=1, stream="stdout", text="c\n\nd\n", seq=3),
    ]

    told = [
        (line.stream, "".join(text for text, _ in line.segments), line.ended)
        for line in loglines.lines_of(chunks)
    ]

    assert told == [
        ("stdout", "a", False),
        ("stderr", "b", True),
        ("stdout", "c", True),
        ("stdout", "", True),
        ("stdout", "d", True),
    ]


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain", [("plain", "")]),
        ("\x1b[31mred\x1b[0m x", [("red", "bq-red"), (" x", "")]),
        ("\x1b[1;92mok\x1b[22m.", [("ok", "bq-bold bq-green"), (".", "bq-green")]),
        ("\x1b[38;5;208mo\x1b[38;2;1;2;3mp", [("o", ""), ("p", "")]),
        ("\x1b[48;5;1;31mx", [("x", "bq-red")]),
        ("10%\r50%\r100%", [("100%", "")]),
        ("done\r", [("done", "")]),
        ("\x1b[2K\x1b[1Acleared", [("cleared", "")]),
        ("\x1b]0;title\x07text", [("text", "")]),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", [("link", "")]),
        ("bell\x07 nul\x00 back\x08", [("bell nul back", "")]),
        ("tab\there", [("tab\there", "")]),
        ("cut \x1b[", [("cut ", "")]),
        ("cut \x1b", [("cut ", "")]),
        ("<b>&", [("<b>&", "")]),
        ("\x1b[999999999999mx", [("x", "")]),
        ("\x1b[;;mx", [("x", "")]),
        ("\x1b[38mx", [("x", "")]),
    ],
)
def test_terminal_output_becomes_text_with_classes(
    printed: str, shown: list[tuple[str, str]]
) -> None:
    assert segments(printed, Pen()) == shown


def test_a_color_goes_on_in_the_next_line() -> None:
    pen = Pen()
    segments("\x1b[31mone", pen)

    assert segments("two", pen) == [("two", "bq-red")]


def test_a_line_without_end_is_cut() -> None:
    [(text, _)] = segments("x" * (MAX_LINE * 4), Pen())

    assert len(text) == MAX_LINE + 2


def test_a_hostile_line_never_leaves_a_control_character(root: Client) -> None:
    job = make_job()
    noise = "".join(map(chr, range(1, 32))) * 50
    chunk(job, 1, noise.replace("\n", ""))

    page = html_of(root.get(page_of(job))).split('role="log"')[1].split("</pre>")[0]

    assert not {c for c in page if ord(c) < 32} - {"\n", "\t"}


def test_a_color_of_thousands_of_digits_is_no_color(root: Client) -> None:
    job = make_job("done")
    chunk(job, 1, f"a\x1b[{'9' * 5000}mb\n")

    assert lines_of(root.get(live_url(job)).json()) == ["ab"]
    assert root.get(page_of(job)).status_code == 200
