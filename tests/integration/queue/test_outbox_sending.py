"""Does every notice reach a real receiver, signed, once, and again when it must?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from standardwebhooks import Webhook, WebhookVerificationError

from buildqueue.exceptions import Refused
from buildqueue.models import JobEvent, Notice
from buildqueue.queue import outbox
from buildqueue.queue.outbox import sending, webhooks
from buildqueue.queue.outbox.sending import MOST_TRIES
from buildqueue.queue.outcomes import Actor
from tests.factories import make_job
from tests.support.outbox import BODY, make_due, make_notice, wanting
from tests.support.races import race
from tests.support.receiver import SECRET, Receiver, receiving

ANNA = Actor(label="anna", id="7")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Receive webhooks on loopback, whatever proxies the environment names."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with receiving() as made:
        yield made


def test_a_webhook_carries_a_signature_that_the_official_library_takes(
    db: None, receiver: Receiver
) -> None:
    notice = make_notice(body=BODY | {"data": {"owner": "Zo\u00eb"}})

    with wanting(receiver.destination()):
        assert outbox.send_due() == 1

    [got] = receiver.received
    assert Webhook(SECRET).verify(got.body, got.headers) == notice.body
    assert got.id == str(notice.pk)
    assert got.headers["content-type"] == "application/json"
    notice.refresh_from_db()
    assert (notice.status, notice.tries, notice.error_msg) == ("sent", 1, "")
    assert notice.sent_at is not None


def test_another_secret_or_body_does_not_verify(db: None, receiver: Receiver) -> None:
    make_notice()

    with wanting(receiver.destination()):
        outbox.send_due()

    [got] = receiver.received
    other = Webhook("whsec_" + "A" * 32)
    for hook, body in ((other, got.body), (Webhook(SECRET), got.body + b" ")):
        with pytest.raises(WebhookVerificationError):
            hook.verify(body, got.headers)


def test_the_receiver_of_the_how_to_takes_it_and_refuses_a_forged_one(
    db: None, receiver: Receiver
) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "be-notified.md"
    [code] = re.findall(r"```python\n(# receiver\n.*?)```", page.read_text(), re.S)
    notice = make_notice()
    with wanting(receiver.destination()):
        outbox.send_due()
    [got] = receiver.received
    scope: dict[str, Any] = {}

    exec(code, scope)
    receive: Callable[..., Any] = scope["receive"]

    answers = [receive(got.body, got.headers, SECRET) for _ in range(2)]
    assert answers == [notice.body, None]  # the repeated one is known by its id
    with pytest.raises(WebhookVerificationError):
        receive(got.body, got.headers | {"webhook-id": "other"}, SECRET)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/busy", "answered 503: not\N{SYMBOL FOR NULL}now"),
        ("/long", "answered 503: xxx"),
        ("/trickle", "answered 500: ."),
        ("/elsewhere", "answered 302: "),
    ],
)
def test_what_is_not_taken_is_tried_later_and_told_briefly(
    db: None, receiver: Receiver, path: str, said: str
) -> None:
    notice = make_notice()
    before = timezone.now()

    with wanting(receiver.destination(path)):
        assert outbox.send_due() == 0
        assert outbox.send_due() == 0  # it is not due now

    assert [got.path for got in receiver.received] == [path]  # no redirect followed
    notice.refresh_from_db()
    assert (notice.status, notice.tries) == ("pending", 1)
    assert notice.due_at > before + timedelta(seconds=3)
    assert notice.error_msg.startswith(said)
    assert len(notice.error_msg) <= 500
    wait = outbox.seconds_to_next()
    assert wait is not None
    assert 0 < wait < 7


def test_a_receiver_that_is_not_there_or_says_nothing_costs_a_try(
    db: None, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending.webhooks, "TIMEOUT_SECONDS", 0.2)
    with receiving() as gone:
        pass
    there, not_there = make_notice(), make_notice(destination="gone")
    nobody = make_notice(destination="unknown")

    with wanting(receiver.destination("/silent"), gone.destination(name="gone")):
        assert outbox.send_due() == 0

    for notice, said in (
        (there, "not reached: TimeoutError: timed out"),
        (not_there, "not reached: [Errno 111] Connection refused"),
        (nobody, "this worker's settings name no such destination"),
    ):
        notice.refresh_from_db()
        assert (notice.status, notice.tries, notice.error_msg) == ("pending", 1, said)


def test_a_notice_is_given_up_after_its_tries_and_sent_again_by_a_person(
    db: None, receiver: Receiver
) -> None:
    job = make_job()
    notice = make_notice(job_id=job.pk)

    with wanting(receiver.destination("/busy")):
        for _ in range(MOST_TRIES + 2):
            make_due(notice)
            outbox.send_due()
    notice.refresh_from_db()
    assert (notice.status, notice.tries) == ("failed", MOST_TRIES)
    assert notice.error_msg.startswith("answered 503")
    assert len(receiver.received) == MOST_TRIES
    assert outbox.seconds_to_next() is None

    outbox.resend(notice.pk, actor=ANNA, reason="it is back")
    with wanting(receiver.destination("/ok")):
        assert outbox.send_due() == 1

    assert set(receiver.ids()) == {str(notice.pk)}
    event = JobEvent.objects.get(job_id=job.pk)
    assert (event.kind, event.actor, event.reason) == ("note", "anna", "it is back")


def test_a_sent_notice_is_sent_again_only_when_a_person_asks(
    db: None, receiver: Receiver
) -> None:
    notice = make_notice()  # of a job that is gone

    with wanting(receiver.destination()):
        sent = [outbox.send_due(), outbox.send_due()]
        outbox.resend(notice.pk, actor=ANNA)
        sent.append(outbox.send_due())

    assert sent == [1, 0, 1]
    assert receiver.ids() == [str(notice.pk)] * 2


def test_what_waits_or_does_not_exist_cannot_be_sent_again(db: None) -> None:
    found: dict[UUID, str] = {}
    for pk in (make_notice().pk, uuid4()):
        with pytest.raises(Refused) as refusal:
            outbox.resend(pk, actor=ANNA)
        found[pk] = refusal.value.code

    assert list(found.values()) == ["wrong_status", "not_found"]


def test_delays_double_from_five_seconds_to_six_hours() -> None:
    delays = [sending.BACKOFF.delay(n, rand=lambda: 0.5) for n in (1, 2, 3, 14, 50)]

    assert delays == [5, 10, 20, 21_600, 21_600]
    assert sending.BACKOFF.delay(1, rand=lambda: 0.0) == 4
    assert sending.BACKOFF.delay(1, rand=lambda: 1.0) == 6


def test_who_comes_back_after_its_hold_marks_nothing(
    db: None, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender that was frozen finds that another one has the notice, or has sent it."""
    notice = make_notice()

    def freeze(*args: Any) -> None:
        make_due(notice)  # its hold is over, and another process takes the notice
        assert list(Notice.objects.raw(sending.TAKE, [sending.HOLD]))
        raise sending.webhooks.NotTaken("too late")

    monkeypatch.setattr(sending.webhooks, "post", freeze)
    with wanting(receiver.destination()):
        sending.send_due(limit=1)

    notice.refresh_from_db()
    assert (notice.status, notice.tries, notice.error_msg) == ("pending", 2, "")


@pytest.mark.slow
def test_two_duties_racing_over_fifty_notices_send_each_once(
    committed: None, receiver: Receiver
) -> None:
    notices = [make_notice() for _ in range(50)]

    with wanting(receiver.destination()):
        sent = race(2, lambda _: outbox.send_due())

    assert sum(sent) == 50
    assert sorted(receiver.ids()) == sorted(str(each.pk) for each in notices)
    assert set(Notice.objects.values_list("status", "tries")) == {("sent", 1)}


def test_writers_of_the_same_notice_at_once_write_one(committed: None) -> None:
    job = make_job("done")

    with wanting({"name": "ops", "events": ["*"], "email": ["ada@example.org"]}):
        race(4, lambda _: outbox.tell("job.done", job, key="the same", body=BODY))

    assert Notice.objects.count() == 1


def test_a_notice_is_taken_in_the_order_of_due_times(
    db: None, receiver: Receiver
) -> None:
    now = timezone.now()
    later = make_notice(due_at=now - timedelta(seconds=1))
    first = make_notice(due_at=now - timedelta(seconds=9))
    make_notice(due_at=now + timedelta(hours=1))

    with wanting(receiver.destination()):
        assert outbox.send_due() == 2

    assert receiver.ids() == [str(first.pk), str(later.pk)]


def test_a_receiver_that_answers_byte_by_byte_holds_nothing_up(
    db: None, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "DEADLINE_SECONDS", 0.5)
    slow = make_notice(destination="slow")
    good = make_notice()

    with wanting(receiver.destination("/drip", name="slow"), receiver.destination()):
        assert outbox.send_due() == 1

    slow.refresh_from_db()
    good.refresh_from_db()
    assert (slow.status, good.status) == ("pending", "sent")
    assert slow.error_msg.startswith("no whole answer within")


def test_the_deadline_of_an_exchange_is_below_the_time_a_notice_is_held() -> None:
    whole = webhooks.DEADLINE_SECONDS + webhooks.TIMEOUT_SECONDS

    assert whole < sending.HOLD.total_seconds()
