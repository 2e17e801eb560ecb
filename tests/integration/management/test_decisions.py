"""Can a shell answer and decide, only on what it was shown, and does it say what it did?"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from buildqueue.models import BuildJob, JobProgress
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.commands import refusal, run
from tests.support.decisions import make_action, make_question

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).parents[3]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that somebody sits there who types the given lines."""

    def typing(text: str) -> None:
        keyboard = io.StringIO(text)
        monkeypatch.setattr(keyboard, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", keyboard)

    return typing


@pytest.fixture
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())


# -- answering -----------------------------------------------------------------------


def test_a_question_is_shown_with_what_an_answer_needs() -> None:
    text = run("answer", str(make_question().pk))

    assert text.startswith("How shall it be printed?\n")
    assert "copies=(integer)  How many are printed." in text
    assert "color=(red | blue)" in text
    assert "note=(text, optional)  What to write" in text


def test_an_answer_is_stored_in_the_types_that_were_asked_for() -> None:
    job = make_question()

    told = run("answer", str(job.pk), "copies=2", "urgent=no", "color=red", "note=a=b")

    assert told == f"{job.pk} is pending\n"
    assert JobProgress.objects.get(pk=job.pk).answers == {
        "copies": 2,
        "urgent": False,
        "color": "red",
        "note": "a=b",
    }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (["copies=many", "urgent=no", "color=red"], "copies: "),
        (["copies=1"], "urgent: "),
        (["copies=1", "copies=2"], "copies is given twice"),
        (["copies"], "must be field=value"),
        (["=1"], "must be field=value"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(
    fields: list[str], words: str
) -> None:
    job = make_question()

    assert words in str(refusal("answer", str(job.pk), *fields))
    assert JobProgress.objects.get(pk=job.pk).answers == {}


def test_a_job_that_asks_nothing_cannot_be_answered() -> None:
    job = make_job()

    for fields in ([], ["copies=1"]):
        assert "it is pending" in str(refusal("answer", str(job.pk), *fields))


# -- deciding ------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["y\n", "YES\n"])
def test_who_says_yes_to_what_is_shown_approves(
    said: str, terminal: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    action = make_action()
    terminal(said)

    text = run("approve", str(action.pk))

    assert "Mail to Anna" in text
    assert '"to": "anna@example.org"' in text
    assert action.content_hash in text
    assert f"{action.pk} is approved" in text
    assert "Let this be done? [y/N]" in capsys.readouterr().out
    assert BuildJob.objects.get(pk=action.job_id).status == "pending"


@pytest.mark.parametrize("said", ["n\n", "\n", "", "maybe\n"])
def test_whoever_says_anything_else_approves_nothing(said: str, terminal: Any) -> None:
    action = make_action()
    terminal(said)

    assert "not approved" in str(refusal("approve", str(action.pk)))
    action.refresh_from_db()
    assert action.status == "awaiting_review"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ([], "--yes and --hash missing"),
        (["--yes"], ": --hash missing"),
        (["--hash", "0" * 64], ": --yes missing"),
    ],
)
@pytest.mark.usefixtures("no_terminal")
def test_where_nobody_can_be_asked_yes_and_hash_are_needed(
    given: list[str], missing: str
) -> None:
    action = make_action()

    error = refusal("approve", str(action.pk), *given)

    assert missing in str(error)
    assert f"manage.py buildqueue actions {str(action.job_id)[:8]}" in str(error)
    assert error.returncode == 2
    action.refresh_from_db()
    assert action.status == "awaiting_review"


@pytest.mark.usefixtures("no_terminal")
def test_a_program_approves_what_it_has_seen_and_nothing_else() -> None:
    action = make_action()
    yes = ("approve", str(action.pk), "--yes", "--hash")

    for other in ("0" * 64, "00000000", action.content_hash[1:]):
        told = str(refusal(*yes, other))
        assert "the hash given is not that of the content" in told
    assert "must be 8 to 64 hexadecimal digits" in str(
        refusal(*yes, action.content_hash[:7])
    )
    assert f"{action.pk} is approved" in run(*yes, action.content_hash[:8])


def test_a_decision_is_made_once() -> None:
    action = make_action()
    deny = ("deny", str(action.pk), "--reason", "wrong Anna")

    assert run(*deny) == f"{action.pk} is denied\n"
    assert "The action is denied" in str(refusal(*deny))
    action.refresh_from_db()
    assert action.reason == "wrong Anna"
    assert action.decided_by.endswith("(command line)")


@pytest.mark.parametrize(
    ("option", "after"), [("--happened", "succeeded"), ("--did-not-happen", "failed")]
)
def test_an_unknown_outcome_is_settled(option: str, after: str) -> None:
    job = make_job(JobStatus.FAILED)
    action = make_action(job, ActionStatus.OUTCOME_UNKNOWN)

    out = io.StringIO()
    with pytest.raises(CommandError, match="1 of 1 refused"):
        call_command("buildqueue", "retry", str(job.pk), stdout=out)
    assert out.getvalue().splitlines()[1:] == [
        f"  manage.py buildqueue settle {str(action.pk)[:8]} "
        "--happened|--did-not-happen --reason …"
    ]
    told = run("settle", str(action.pk), option, "--reason", "asked the provider")

    assert told == f"{action.pk} is {after}\n"
    assert "is pending" in run("retry", str(job.pk))


def test_who_resumes_a_job_of_unknown_outcome_is_told_what_to_type() -> None:
    job = make_job(JobStatus.PAUSED)
    action = make_action(job, ActionStatus.OUTCOME_UNKNOWN)

    told = str(refusal("resume", str(job.pk)))

    assert f"manage.py buildqueue settle {str(action.pk)[:8]} --happened" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["deny", "{}"],
        ["settle", "{}", "--reason", "x"],
        ["settle", "{}", "--happened"],
        ["settle", "{}", "--happened", "--did-not-happen", "--reason", "x"],
    ],
)
def test_a_decision_without_what_it_needs_is_wrong_usage(arguments: list[str]) -> None:
    action = make_action()

    refusal(*(each.format(action.pk) for each in arguments))

    action.refresh_from_db()
    assert action.status == "awaiting_review"


def test_a_reason_of_spaces_is_none() -> None:
    action = make_action()

    assert "Say why" in str(refusal("deny", str(action.pk), "--reason", "  "))


def test_wrong_usage_is_told_by_the_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "buildqueue", "settle", "abcd"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "--happened" in done.stderr
