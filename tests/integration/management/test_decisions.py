"""Can a shell answer, hold back, reschedule and decide, and does it say what it did?"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from buildqueue.management.arguments import ACTS
from buildqueue.models import BuildJob, Checkpoint, JobEvent, JobProgress
from buildqueue.queue import verbs
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.decisions import make_action, make_question

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("buildqueue", *arguments, stdout=out)
    return out.getvalue()


def refusal(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as told:
        run(*arguments)
    return told.value


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


# -- jobs ------------------------------------------------------------------------------


def test_a_job_is_held_back_and_goes_on() -> None:
    job = make_job()

    assert run("pause", str(job.pk), "--reason", "lunch") == f"{job.pk} is paused\n"
    assert run("resume", str(job.pk)) == f"{job.pk} is pending\n"
    assert JobEvent.objects.get(job=job, kind="pause").reason == "lunch"


def test_several_jobs_are_retried_and_each_is_told() -> None:
    failed, done = make_job(JobStatus.FAILED), make_job(JobStatus.DONE)
    out = io.StringIO()

    with pytest.raises(CommandError, match="1 of 2 refused") as told:
        call_command("buildqueue", "retry", str(failed.pk), str(done.pk), stdout=out)

    assert told.value.returncode == 1
    assert out.getvalue().splitlines() == [
        f"{failed.pk} is pending",
        f"{done.pk} refused (wrong_status): cannot retry job {done.pk}: it is done",
    ]


def test_a_mistyped_job_among_several_leaves_all_as_they_were() -> None:
    job = make_job(JobStatus.FAILED)

    assert "no job begins" in str(refusal("retry", str(job.pk), "zzzz"))
    job.refresh_from_db()
    assert job.status == "failed"


def test_the_quarantine_is_a_list() -> None:
    quarantined = make_job(JobStatus.FAILED, error_code="max_attempts_exhausted")
    make_job(JobStatus.FAILED, error_code="told_to")

    lines = run("list", "--code", "max_attempts_exhausted").splitlines()[1:]

    assert [line.split()[0] for line in lines] == [str(quarantined.pk)]


def test_priority_changes() -> None:
    job = make_job()

    assert run("priority", str(job.pk), "7") == f"{job.pk} has priority 7\n"
    assert "must be a whole number from -100" in str(
        refusal("priority", str(job.pk), "101")
    )
    job.refresh_from_db()
    assert job.priority == 7


@pytest.mark.parametrize(
    ("when", "wait"),
    [
        ("+90s", timedelta(seconds=90)),
        ("+10m", timedelta(minutes=10)),
        ("+2h", timedelta(hours=2)),
        ("+3d", timedelta(days=3)),
    ],
)
def test_a_job_is_due_a_while_from_now(when: str, wait: timedelta) -> None:
    job, before = make_job(), timezone.now()

    told = run("due", str(job.pk), when)

    job.refresh_from_db()
    assert before + wait <= job.due_at <= timezone.now() + wait
    assert told.startswith(f"{job.pk} is scheduled, due 2")


def test_a_moment_without_an_offset_is_in_the_projects_time_zone(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    job = make_job()

    run("due", str(job.pk), "2050-01-01T09:00")

    job.refresh_from_db()
    assert job.due_at.isoformat() == "2050-01-01T00:00:00+00:00"


def test_a_job_is_due_now() -> None:
    later = timezone.now() + timedelta(days=1)
    job = make_job(JobStatus.SCHEDULED, due_at=later)

    assert "is pending" in run("due", str(job.pk), "now")


@pytest.mark.parametrize(
    "when",
    ["soon", "10m", "+1y", "+999999999d", "0001-01-01T00:00", "2050-13-01", "-1"],
)
def test_a_moment_that_is_none_is_refused(when: str) -> None:
    job = make_job()

    assert "must be `now`" in str(refusal("due", str(job.pk), "--", when))


# -- answering -------------------------------------------------------------------------


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


# -- deciding --------------------------------------------------------------------------


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


# -- looking ---------------------------------------------------------------------------


def test_actions_are_listed_and_narrowed() -> None:
    review = make_action()
    done = make_action(make_job(), ActionStatus.SUCCEEDED, receipt={"id": "m-1"})

    every, some = run("actions"), run("actions", "--status", "succeeded")
    of_job = run("actions", str(done.job_id))
    (line,) = run("actions", str(review.job_id), "--json").splitlines()

    assert str(review.pk) in every
    assert str(review.pk) not in some
    assert '  receipt {"id": "m-1"}' in of_job.splitlines()
    assert json.loads(line)["content_hash"] == review.content_hash


def test_an_action_that_is_not_there_is_refused_with_a_sentence() -> None:
    assert "no action begins" in str(refusal("approve", "zzzz", "--yes"))


def test_show_tells_what_a_job_asks_did_and_waits_for() -> None:
    parent = make_job(JobStatus.WAITING_CHILDREN)
    job = make_question(parent=parent)
    JobProgress.objects.filter(pk=job.pk).update(done=2, total=5, message="halfway")
    Checkpoint.objects.create(job=job, step="charge", attempt=1)
    action = make_action(job, ActionStatus.SUCCEEDED)

    text, above = run("show", str(job.pk)), run("show", str(parent.pk))
    data = json.loads(run("show", str(job.pk), "--json"))

    for words in (
        "How shall it be printed?",
        "2 of 5  halfway",
        "charge",
        str(action.pk),
    ):
        assert words in text, words
    assert str(parent.pk) in text
    assert f"{job.pk}  waiting_input" in above
    assert data["question"]["fields"]["copies"]["type"] == "integer"
    assert data["progress"]["done"] == 2
    assert data["steps_done"][0]["step"] == "charge"
    assert data["actions"][0]["id"] == str(action.pk)
    assert data["parent"] == str(parent.pk)
    assert json.loads(run("show", str(parent.pk), "--json"))["children"] == [
        {"id": str(job.pk), "kind": "probe", "status": "waiting_input"}
    ]


def test_what_a_handler_says_does_not_command_the_terminal() -> None:
    action = make_action(title="a\x1b]0;title\x07b\x1b[2Jc", content={"x": "\x9b2J"})

    text = run("actions", str(action.job_id))

    assert "abc" in text
    assert not {"\x1b", "\x07", "\x9b"} & set(text)


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


def test_every_verb_of_the_engine_has_a_command() -> None:
    assert {verb for verb, _help in ACTS.values()} | {"retry"} == set(verbs.VERBS)
