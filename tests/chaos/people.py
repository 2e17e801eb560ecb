"""What do people do meanwhile? They decide, answer, and meddle.

Decisions are taken at once, so that no job waits for a person that nobody left waiting on
purpose. Meddling is at random, by the seed, and ends with the faults.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.db import connection

from buildqueue.exceptions import BuildQueueError, InvalidTransition, Refused
from buildqueue.models import BuildJob, JobAction
from buildqueue.queue import actions, verbs
from buildqueue.queue.outcomes import Actor
from buildqueue.states import FINAL, ActionStatus, JobStatus

from .patience import patiently

PERSON = Actor(label="chaos operator")
LOOK_SECONDS = 0.3
MEDDLES = 0.3  # of the looks
WHY = "the chaos test wants it so"
_S = JobStatus
# verb -> the jobs that it is tried on, and how often compared with the others
MEDDLING: dict[str, tuple[tuple[JobStatus, ...], int]] = {
    "pause": ((_S.IN_PROGRESS, _S.PENDING, _S.WAITING_CHILDREN, _S.SCHEDULED), 5),
    "release": ((_S.IN_PROGRESS,), 3),
    "cancel": (tuple(sorted(set(_S) - FINAL)), 3),
    "force_fail": ((_S.IN_PROGRESS, _S.WAITING_CHILDREN), 1),
    "retry": ((_S.FAILED, _S.CANCELLED), 5),
}


class People(threading.Thread):
    """A thread that does what people do, until told to stop."""

    def __init__(self, seed: int) -> None:
        super().__init__(name="people", daemon=True)
        self._rng = random.Random(f"people {seed}")
        self._stopping = threading.Event()
        self._calm = threading.Event()
        self.did: Counter[str] = Counter()
        self.trouble = ""

    def calm_down(self) -> None:
        """Meddle no more; go on deciding, and let all go on that was held back."""
        self._calm.set()

    def stop(self) -> None:
        """Do nothing more."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Look, decide, meddle."""
        try:
            while not self._stopping.wait(LOOK_SECONDS):
                self._decide()
                self._answer()
                self._resume()
                if not self._calm.is_set() and self._rng.random() < MEDDLES:
                    self._meddle()
        except BaseException:  # told by the run, which would otherwise only see silence
            self.trouble = traceback.format_exc()
        finally:
            connection.close()

    def _try(self, name: str, act: Callable[[], Any]) -> None:
        try:
            patiently(act)
            self.did[name] += 1
        except InvalidTransition:  # it went on meanwhile, or the first try did commit
            self.did[f"{name}, too late"] += 1
        except (Refused, BuildQueueError) as refused:
            code = getattr(refused, "code", type(refused).__name__)
            self.did[f"{name} refused: {code}"] += 1

    def _decide(self) -> None:
        waiting = JobAction.objects.filter(status=ActionStatus.AWAITING_REVIEW)
        for action in patiently(lambda: list(waiting.order_by("created_at")[:20])):
            seen = {"content_hash": action.content_hash, "actor": PERSON, "reason": WHY}
            verb = "deny" if self._rng.random() < 0.1 else "approve"
            act = actions.deny if verb == "deny" else actions.approve
            self._try(verb, lambda a=action, s=seen, do=act: do(a.pk, **s))

    def _answer(self) -> None:
        asking = BuildJob.objects.filter(
            status=JobStatus.WAITING_INPUT, payload__left_open=False
        )
        for job in patiently(lambda: list(asking[:20])):
            values = {"color": self._rng.choice(("red", "blue"))}
            self._try(
                "answer",
                lambda j=job, v=values: verbs.answer(j.pk, values=v, actor=PERSON),
            )

    def _resume(self) -> None:
        paused = BuildJob.objects.filter(status=JobStatus.PAUSED)
        for job in patiently(lambda: list(paused.order_by("seq")[:20])):
            if self._calm.is_set() or self._rng.random() < 0.1:
                self._try("resume", lambda j=job: verbs.resume(j.pk, actor=PERSON))

    def _meddle(self) -> None:
        names = list(MEDDLING)
        weights = [MEDDLING[name][1] for name in names]
        name = self._rng.choices(names, weights=weights)[0]
        jobs = BuildJob.objects.filter(status__in=MEDDLING[name][0])
        if name == "retry":  # a child's parent may have ended by what it was
            jobs = jobs.filter(parent__isnull=True)
        found = patiently(lambda: list(jobs.order_by("-seq")[:40]))
        if found:
            job = self._rng.choice(found)
            verb = verbs.VERBS[name][0]
            self._try(name, lambda: verb(job.pk, actor=PERSON, reason=WHY))
