"""Does a job get exactly what it asked a person for, or nothing at all?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from buildqueue.exceptions import InvalidTransition, Refused
from buildqueue.models import BuildJob, JobEvent, JobProgress
from buildqueue.queue import questions, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor, Done, Outcome, WaitForInput
from buildqueue.queue.questions import LONGEST_TEXT, Field
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.support.jobs import fresh, kinds
from tests.support.races import race
from tests.support.turns import claim, report, turn

from .conftest import AddKind

ANNA = Actor(label="anna", id="7")
FIELDS = {
    "name": Field(label="Your name"),
    "count": Field(type="integer"),
    "price": Field(type="number"),
    "sure": Field(type="boolean"),
    "color": Field(type="choice", choices=("red", "green")),
    "remark": Field(required=False),
}
GOOD: dict[str, Any] = {
    "name": "Anna",
    "count": 3,
    "price": 1.5,
    "sure": True,
    "color": "red",
}


def _asking(**fields: Field) -> BuildJob:
    outcome = WaitForInput(question="Which one?", fields=fields or FIELDS)
    return report(make_job(JobStatus.IN_PROGRESS), outcome)


def _answers(job: BuildJob) -> dict[str, Any]:
    return dict(JobProgress.objects.get(pk=job.pk).answers)


def _answer(job: BuildJob, **values: Any) -> BuildJob:
    return verbs.answer(job.pk, values=values, actor=ANNA, reason="asked by phone")


@pytest.mark.django_db
def test_an_answer_that_fits_is_stored_and_the_job_runs_again() -> None:
    job = _asking()

    after = _answer(job, **GOOD)

    assert after.status == JobStatus.PENDING
    assert _answers(job) == GOOD
    assert JobProgress.objects.get(pk=job.pk).waits_for is None
    assert kinds(job) == ["wait", "answered", "wake"]
    taken = claim()
    assert taken is not None
    assert (taken.pk, taken.attempt) == (job.pk, 2)


@pytest.mark.django_db
def test_who_answered_is_told_and_what_is_not() -> None:
    job = _asking()

    _answer(job, **GOOD | {"name": "a secret"})

    event = JobEvent.objects.get(kind="answered")
    assert (event.actor, event.actor_id, event.reason) == (
        "anna",
        "7",
        "asked by phone",
    )
    assert event.title == "Which one?"
    assert event.detail == {"fields": sorted(GOOD)}
    assert "a secret" not in str(list(JobEvent.objects.values()))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "given", "stored"),
    [
        (Field(), "text", "text"),
        (Field(), " kept as it is \n", " kept as it is \n"),
        (Field(), "x" * LONGEST_TEXT, "x" * LONGEST_TEXT),
        (Field(required=False), "", ""),
        (Field(type="integer"), -7, -7),
        (Field(type="integer"), "42", 42),
        (Field(type="number"), 2, 2.0),
        (Field(type="number"), "0.25", 0.25),
        (Field(type="boolean"), False, False),
        (Field(type="boolean"), "yes", True),
        (Field(type="choice", choices=("a", "b")), "b", "b"),
        (Field(type="choice", choices=("only",)), "only", "only"),
    ],
)
def test_an_answer_is_kept_in_the_type_that_was_asked_for(
    field: Field, given: Any, stored: Any
) -> None:
    job = _asking(field=field)

    _answer(job, field=given)

    [kept] = _answers(job).values()
    assert (kept, type(kept)) == (stored, type(stored))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "given"),
    [
        (Field(), ""),
        (Field(), 7),
        (Field(), None),
        (Field(), ["a"]),
        (Field(), "x" * (LONGEST_TEXT + 1)),
        (Field(), "half \ud800 a pair"),
        (Field(type="integer"), "many"),
        (Field(type="integer"), 1.5),
        (Field(type="integer"), None),
        (Field(type="integer"), "9" * 5000),
        (Field(type="number"), "much"),
        (Field(type="number"), "nan"),
        (Field(type="number"), float("inf")),
        (Field(type="boolean"), "perhaps"),
        (Field(type="boolean"), 2),
        (Field(type="choice", choices=("a", "b")), "c"),
        (Field(type="choice", choices=("a", "b")), ""),
        (Field(type="choice", choices=("a", "b")), {"a": 1}),
        (Field(type="integer", required=False), "many"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing_and_names_its_field(
    field: Field, given: Any
) -> None:
    job = _asking(field=field)
    before = BuildJob.objects.filter(pk=job.pk).values().get()

    with pytest.raises(Refused, match="field") as refused:
        _answer(job, field=given)

    assert (refused.value.code, refused.value.status) == ("answer_does_not_fit", 422)
    assert set(refused.value.fields) == {"field"}
    assert refused.value.fields["field"]
    assert BuildJob.objects.filter(pk=job.pk).values().get() == before
    assert _answers(job) == {}
    assert kinds(job) == ["wait"]


@pytest.mark.django_db
def test_all_that_does_not_fit_is_told_at_once() -> None:
    job = _asking()

    with pytest.raises(Refused) as refused:
        _answer(job, count="x", price="x", sure="x", color="x", more="x")

    wrong = {"name", "count", "price", "sure", "color", "more"}
    assert set(refused.value.fields) == wrong


@pytest.mark.django_db
@pytest.mark.parametrize("extra", ["remark2", "question", "__class__", "a\x00", ""])
def test_what_was_not_asked_for_is_refused(extra: str) -> None:
    job = _asking()

    with pytest.raises(Refused, match="does not fit"):
        _answer(job, **GOOD | {extra: "x"})

    assert _answers(job) == {}


@pytest.mark.django_db
def test_a_name_that_is_no_text_is_refused() -> None:
    job = _asking()

    with pytest.raises(Refused) as refused:
        _answer(job, **GOOD | {"\ud800": "x"})

    assert refused.value.code == "answer_does_not_fit"
    str(refused.value).encode()  # fit to be sent to whoever asked


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name", ["_private", "model_config", "json", "a field", "größe", "field_0", "self"]
)
def test_a_field_may_have_any_name(name: str) -> None:
    job = _asking(**{name: Field(), "other": Field(type="integer")})

    with pytest.raises(Refused) as refused:
        verbs.answer(job.pk, values={"other": 1}, actor=ANNA)
    verbs.answer(job.pk, values={name: "x", "other": 1}, actor=ANNA)

    assert set(refused.value.fields) == {name}
    assert _answers(job) == {name: "x", "other": 1}


@pytest.mark.django_db
def test_a_text_that_postgresql_cannot_keep_is_kept_as_well_as_can_be() -> None:
    job = _asking(name=Field())

    _answer(job, name="nul \x00 here")

    kept = _answers(job)["name"]
    assert kept.startswith("nul ")
    assert kept.endswith(" here")
    assert "\x00" not in kept


@pytest.mark.django_db
def test_a_second_answer_finds_that_nobody_asks_any_more() -> None:
    job = _asking()
    _answer(job, **GOOD)

    with pytest.raises(InvalidTransition) as refused:
        _answer(job, **GOOD | {"name": "Ben"})

    assert (refused.value.code, refused.value.found) == ("wrong_status", "pending")
    assert _answers(job) == GOOD


def test_of_many_answers_at_once_one_is_taken_whole(committed: None) -> None:
    for _ in range(10):
        job = _asking(name=Field(), count=Field(type="integer"))

        def act(number: int, job: BuildJob = job) -> int | None:
            try:
                _answer(job, name=str(number), count=number)
            except InvalidTransition:
                return None
            return number

        [taken] = [n for n in race(4, act) if n is not None]

        assert _answers(job) == {"name": str(taken), "count": taken}
        assert kinds(job) == ["wait", "answered", "wake"]


@pytest.mark.django_db
def test_an_unknown_job_cannot_be_answered() -> None:
    with pytest.raises(InvalidTransition, match="does not exist") as refused:
        verbs.answer(uuid.uuid4(), values=GOOD, actor=ANNA)

    assert refused.value.found is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "status", [s for s in JobStatus if s != JobStatus.WAITING_INPUT]
)
def test_a_job_that_asks_nothing_cannot_be_answered(status: str) -> None:
    job = make_job(status)

    with pytest.raises(InvalidTransition) as refused:
        _answer(job, **GOOD)

    assert refused.value.found == status
    assert not JobProgress.objects.exists()
    assert not JobEvent.objects.exists()


@pytest.mark.django_db
def test_a_row_that_waits_without_a_question_can_be_freed_by_an_empty_answer() -> None:
    job = make_job(JobStatus.WAITING_INPUT)

    with pytest.raises(Refused, match="does not fit"):
        _answer(job, name="x")

    assert _answer(job).status == JobStatus.PENDING


def test_the_answers_to_several_questions_come_together(
    committed: None, add_kind: AddKind
) -> None:
    seen: list[dict[str, Any]] = []

    def handle(ctx: Context, payload: object) -> Outcome | None:
        seen.append(ctx.answers)
        if "size" not in ctx.answers:
            size = Field(type="choice", choices=("S", "M"))
            return WaitForInput(question="Size?", fields={"size": size})
        if "count" not in ctx.answers:
            asked = {"count": Field(type="integer"), "size": Field(required=False)}
            return WaitForInput(question="How many?", fields=asked)
        return Done(result=ctx.answers)

    job = make_job(payload={"kind": add_kind(function=handle)})

    turn()
    assert fresh(job).status == JobStatus.WAITING_INPUT
    _answer(job, size="S")
    turn()
    assert fresh(job).status == JobStatus.WAITING_INPUT
    _answer(job, count=2)
    done = turn()

    assert done is not None
    assert (done.status, done.result) == ("done", {"size": "S", "count": 2})
    assert seen == [{}, {"size": "S"}, {"size": "S", "count": 2}]
    assert (done.attempt, done.failures, done.crashes) == (3, 0, 0)


@pytest.mark.parametrize(
    "field",
    [{"type": "choice"}, {"choices": ("a",)}, {"type": "integer", "choices": ("a",)}],
)
def test_a_field_that_nobody_could_answer_is_a_fault_of_the_handler(
    field: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="choice"):
        Field(**field)


@pytest.mark.parametrize(
    ("question", "fields"), [("  ", {"a": Field()}), ("Which?", {})]
)
def test_a_question_without_words_or_fields_is_a_fault_of_the_handler(
    question: str, fields: dict[str, Field]
) -> None:
    with pytest.raises(ValueError, match="needs its words"):
        WaitForInput(question=question, fields=fields)


@pytest.mark.django_db
def test_an_answer_to_another_question_than_was_seen_is_refused() -> None:
    job = _asking(b=Field(type="integer"), a=Field())
    asked = JobProgress.objects.get(pk=job.pk).waits_for

    assert list(questions.fields_of(asked)) == ["b", "a"]  # as they were asked
    with pytest.raises(Refused) as refused:
        verbs.answer(job.pk, values={"a": "x", "b": 1}, actor=ANNA, key="another")
    assert refused.value.code == "question_changed"
    answered = verbs.answer(
        job.pk, values={"a": "x", "b": 1}, actor=ANNA, key=asked["key"]
    )
    assert answered.status == JobStatus.PENDING
