"""Does the code of the pages on steps, actions, questions and children do what they say?"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from buildqueue.exceptions import InvalidTransition, PermanentError, Refused
from buildqueue.models import BuildJob, Checkpoint, JobAction
from buildqueue.queue import actions, enqueueing, handlers, verbs
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from buildqueue.worker import locks, runner
from tests.host.models import Effect
from tests.support.attempts import claimed
from tests.support.jobs import fresh
from tests.support.turns import turn

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python\n# (\S+)( \(continued\))?\n(.+?)```", re.S)
IBAN = "DE02120300000000202051"
ANNA = Actor(label="anna")


class Outside:
    """What is outside of the pages: it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.error: Exception | None = None

    def fetch_invoice(self, number: int) -> str:
        """Fetch an invoice."""
        self.asked.append(number)
        return f"{number}.pdf"

    def mail(self, content: dict[str, Any], message_id: str) -> dict[str, str]:
        """Send a mail."""
        self.asked.append(content)
        if self.error:
            raise self.error
        return {"id": message_id}

    def pay(self, iban: str, cents: int) -> dict[str, str]:
        """Pay."""
        self.asked.append((iban, cents))
        if self.error:
            raise self.error
        return {"id": "payment-1"}

    def measure(self, name: str) -> int:
        """Measure how warm it is."""
        self.asked.append(name)
        if self.error and name == "Oslo":
            raise self.error
        return len(name)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, committed: None) -> Outside:
    """Be the outside world of the pages, and forget their kinds afterwards."""
    made = Outside()
    monkeypatch.setattr(handlers, "_handlers", dict(handlers._handlers))
    charges = types.SimpleNamespace(
        objects=types.SimpleNamespace(
            create=lambda order, cents: Effect.objects.create(label=f"{order} {cents}")
        )
    )
    for name, found in {
        "shop": {},
        "shop.models": {"Charge": charges},
        "shop.outside": {"fetch_invoice": made.fetch_invoice, "mail": made.mail},
        "travel": {},
        "travel.outside": {"pay": made.pay},
        "weather": {},
        "weather.outside": {"measure": made.measure},
    }.items():
        module = types.ModuleType(name)
        module.__dict__.update(found)
        monkeypatch.setitem(sys.modules, name, module)
    return made


def _execute(page: str) -> dict[str, Any]:
    """Execute the page's blocks, each file in one module; return all names."""
    files: dict[str, str] = {}
    for name, continued, code in BLOCK.findall((DOCS / page).read_text()):
        assert bool(continued) == (name in files)
        files[name] = files.get(name, "") + code
    names: dict[str, Any] = {}
    for name, code in files.items():
        module = types.ModuleType(name.removesuffix(".py").replace("/", "."))
        # Modules that pydantic looks into for the names of annotations.
        sys.modules[module.__name__] = module
        try:
            exec(compile(code, name, "exec"), module.__dict__)
        finally:
            del sys.modules[module.__name__]
        names |= module.__dict__
    return names


def _run(job: BuildJob) -> BuildJob:
    session = locks.own_connection()
    try:
        runner.run(claimed(job), session)
    finally:
        session.close()
    return fresh(job)


def test_an_order_is_charged_fetched_and_mailed_once(outside: Outside) -> None:
    page = _execute("explanation/steps-and-actions.md")
    job = enqueueing.enqueue(page["Order"](number=7, email="a@example.com"))
    outside.error = ConnectionRefusedError("refused")

    assert _run(job).status == JobStatus.SCHEDULED
    outside.error = None
    verbs.force_fail(job.pk, actor=Actor(label="anna"), reason="to run it at once")
    verbs.retry(job.pk, actor=Actor(label="anna"))
    done = _run(job)

    letter = {"to": "a@example.com", "attach": "7.pdf"}
    assert done.status == JobStatus.DONE
    assert outside.asked == [7, letter, letter]
    assert list(Effect.objects.values_list("label", flat=True)) == ["7 4000"]
    assert done.result == {"mail": str(JobAction.objects.get().pk)}
    steps = Checkpoint.objects.order_by("pk").values_list("step", flat=True)
    assert list(steps) == ["charge", "fetch the invoice"]


def test_a_time_out_of_the_mail_server_is_an_unknown_outcome(outside: Outside) -> None:
    page = _execute("explanation/steps-and-actions.md")
    job = enqueueing.enqueue(page["Order"](number=7, email="a@example.com"))
    outside.error = TimeoutError("no answer")

    failed = _run(job)

    assert (failed.status, failed.error_code) == (JobStatus.FAILED, "outcome_unknown")
    with pytest.raises(Refused):
        verbs.retry(job.pk, actor=Actor(label="anna"))


def test_a_trip_is_booked_as_a_person_answers(outside: Outside) -> None:
    page = _execute("how-to/ask-a-person.md")
    job = enqueueing.enqueue(page["Trip"](city="Rome"))

    assert _run(job).status == JobStatus.WAITING_INPUT
    assert job.progress.waits_for["question"] == "How do you want to travel to Rome?"
    with pytest.raises(Refused) as refused:
        page["answer_trip"](job.pk, "anna", {"seat": "roof", "nights": 2})
    assert refused.value.code == "answer_does_not_fit"
    page["answer_trip"](job.pk, "anna", {"seat": "aisle", "nights": 2})
    with pytest.raises(InvalidTransition):
        page["answer_trip"](job.pk, "bert", {"seat": "window", "nights": 1})

    done = _run(job)
    assert (done.status, done.result) == ("done", {"seat": "aisle", "nights": 2})


def test_a_payment_is_made_when_a_person_approves_it(outside: Outside) -> None:
    page = _execute("how-to/ask-a-person.md")
    job = enqueueing.enqueue(page["Payment"](iban=IBAN, cents=4050))

    assert _run(job).status == JobStatus.WAITING_APPROVAL
    action = JobAction.objects.get()
    assert (action.title, outside.asked) == (f"Pay 40.50 to {IBAN}", [])
    page["approve"](action, "anna")

    done = _run(job)
    assert (done.status, done.result) == ("done", {"payment": "payment-1"})
    assert outside.asked == [(IBAN, 4050)]


def test_a_payment_that_is_denied_fails_the_job_and_a_retry_asks_anew(
    outside: Outside,
) -> None:
    page = _execute("how-to/ask-a-person.md")
    job = enqueueing.enqueue(page["Payment"](iban=IBAN, cents=4050))
    _run(job)
    page["deny"](JobAction.objects.get(), "anna", "twice the price")

    failed = _run(job)
    assert (failed.status, failed.error_code) == ("failed", "action_denied")
    assert "twice the price" in (failed.error_msg or "")

    verbs.retry(job.pk, actor=Actor(label="anna"))
    assert _run(job).status == JobStatus.WAITING_APPROVAL
    page["approve"](JobAction.objects.get(), "anna")
    assert _run(job).status == JobStatus.DONE
    assert outside.asked == [(IBAN, 4050)]


def test_a_payment_that_certainly_was_not_made_is_tried_again_as_approved(
    outside: Outside,
) -> None:
    page = _execute("how-to/ask-a-person.md")
    job = enqueueing.enqueue(page["Payment"](iban=IBAN, cents=4050))
    _run(job)
    page["approve"](JobAction.objects.get(), "anna")
    outside.error = ConnectionRefusedError("refused")

    assert _run(job).status == JobStatus.SCHEDULED
    outside.error = None
    verbs.change_due(job.pk, due_at=timezone.now(), actor=ANNA)
    assert _run(job).status == JobStatus.DONE
    assert outside.asked == [(IBAN, 4050)] * 2


def test_a_payment_that_a_person_has_settled_is_not_made_again(
    outside: Outside,
) -> None:
    page = _execute("how-to/ask-a-person.md")
    job = enqueueing.enqueue(page["Payment"](iban=IBAN, cents=4050))
    _run(job)
    page["approve"](JobAction.objects.get(), "anna")
    outside.error = TimeoutError("no answer")

    assert _run(job).error_code == "outcome_unknown"
    action = JobAction.objects.get()
    actions.settle(action.pk, happened=True, actor=ANNA, reason="on the statement")
    verbs.retry(job.pk, actor=ANNA)
    done = _run(job)

    assert (done.status, done.result) == (JobStatus.DONE, {"payment": None})
    assert len(outside.asked) == 1


# -- children ----------------------------------------------------------------------------


def _run_next() -> BuildJob:
    job = turn()
    assert job is not None
    return job


def test_a_report_collects_what_its_children_have_found(outside: Outside) -> None:
    page = _execute("how-to/have-children.md")
    report = enqueueing.enqueue(page["Report"](cities=["Rome", "Oslo"]))
    outside.error = PermanentError("the thermometer is broken")

    assert _run(report).status == JobStatus.WAITING_CHILDREN
    assert [_run_next().status for _ in range(2)] == ["done", "failed"]
    done = _run(report)

    assert (done.status, done.result) == ("done", {"Rome": 4})
    assert BuildJob.objects.filter(parent=report).count() == 2


def test_a_child_is_retried_with_its_parent_and_not_without_it(
    outside: Outside,
) -> None:
    page = _execute("how-to/have-children.md")
    report = enqueueing.enqueue(page["Report"](cities=["Rome", "Oslo"]))
    _run(report)
    rome = _run_next()
    verbs.cancel(report.pk, actor=ANNA)
    oslo = BuildJob.objects.filter(parent=report).latest("seq")

    assert (rome.status, oslo.status) == ("done", "cancelled")
    with pytest.raises(Refused) as refused:
        verbs.retry(oslo.pk, actor=ANNA)
    assert refused.value.code == "parent_ended"

    verbs.retry(report.pk, actor=ANNA)
    again = _run_next()
    assert (again.pk, again.status) == (oslo.pk, "done")
    assert _run(report).result == {"Rome": 4, "Oslo": 4}
    assert outside.asked == ["Rome", "Oslo"]


def test_a_child_of_a_parent_that_waits_is_retried_and_waited_for(
    outside: Outside,
) -> None:
    page = _execute("how-to/have-children.md")
    report = enqueueing.enqueue(page["Report"](cities=["Oslo", "Rome"]))
    _run(report)
    outside.error = PermanentError("the thermometer is broken")
    oslo = _run_next()
    outside.error = None

    verbs.retry(oslo.pk, actor=ANNA)
    ended = [_run_next().status for _ in range(2)]

    assert (oslo.status, ended) == ("failed", ["done", "done"])
    assert _run(report).result == {"Oslo": 4, "Rome": 4}
