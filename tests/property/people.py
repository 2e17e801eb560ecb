"""What do people do to jobs and to what these want to do outside?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from buildqueue import states
from buildqueue.exceptions import InvalidTransition, Refused
from buildqueue.models import JobAction
from buildqueue.queue import verbs
from buildqueue.states import FINAL, ActionStatus, JobStatus

from .acts import ANNA, deciding
from .oracle import Oracle, numbers


class PeopleRules(Oracle):
    """Verbs, answers and decisions, at the right moment or not."""

    @rule(number=numbers, name=st.sampled_from(sorted(verbs.VERBS)))
    def person(self, number: int, name: str) -> None:
        self.applies(number, name)

    @rule(number=numbers, name=st.sampled_from(["pause", "resume", "retry"]))
    def patient_person(self, number: int, name: str) -> None:
        self.applies(number, name)

    def applies(self, number: int, name: str) -> None:
        act, transition, _ = verbs.VERBS[name]
        if job := self.job(number, transition.sources):
            note(f"    {name} a job that is {job.status}")
            self.verb(job, transition, lambda: act(job.pk, actor=ANNA, reason="so"))

    @rule(number=numbers, priority=st.integers(-100, 100), later=st.booleans())
    def reorder(self, number: int, priority: int, later: bool) -> None:
        if (job := self.job(number, states.UNCLAIMED)) is None:
            return
        refusal = self.refused(
            lambda: verbs.change_priority(job.pk, priority=priority, actor=ANNA),
            InvalidTransition,
        )
        assert (refusal is None) == (job.status not in FINAL)
        due = timezone.now() + timedelta(hours=1 if later else -1)
        self.verb(
            job,
            states.RESCHEDULE,
            lambda: verbs.change_due(job.pk, due_at=due, actor=ANNA),
        )

    @rule(number=numbers, values=st.sampled_from([{"name": "x"}, {}, {"no": "field"}]))
    def answer(self, number: int, values: dict[str, Any]) -> None:
        if job := self.job(number, frozenset({JobStatus.WAITING_INPUT})):
            refusal = self.refused(
                lambda: verbs.answer(job.pk, values=values, actor=ANNA),
                InvalidTransition,
                Refused,
            )
            asked = job.status == JobStatus.WAITING_INPUT
            assert isinstance(refusal, InvalidTransition) != asked
            if asked:
                assert (refusal is None) == ("name" in values)

    @precondition(lambda self: JobAction.objects.exists())
    @rule(
        number=numbers,
        verb=st.sampled_from(["approve", "approve", "deny", "settle"]),
        seen=st.sampled_from([True, True, False]),
    )
    def decide(self, number: int, verb: str, seen: bool) -> None:
        settled = verb == "settle"
        unknown, awaited = ActionStatus.OUTCOME_UNKNOWN, ActionStatus.AWAITING_REVIEW
        wanted = unknown if settled else awaited
        action = self.action(number, wanted)
        assert action is not None
        refusal = self.refused(deciding(action, verb, seen), Refused)
        if action.status != wanted:
            assert getattr(refusal, "code", "") == "already_decided"
