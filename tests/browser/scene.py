"""A queue on an ordinary day: what the screenshots show.

Kinds, codes, steps and lines are those of this version, and two kinds of a host's own.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from buildqueue.models import Agent, BuildJob, Worker
from tests.factories import make_agent, make_job, make_user

from . import decided, shown

REPORT = "nightly_report"
KINDS = (
    "agent_delete",
    "agent_stop",
    decided.CAMPAIGN,
    REPORT,
    "send_invoice",
    "upload",
)
# What a host's own job may print: every color, and a warning.
COLORED = "\x1b[1mtotals\x1b[0m " + " ".join(
    f"\x1b[{30 + color}mregion {color}\x1b[0m" for color in range(1, 7)
)


def _worker(host: str, pid: int, busy: int, *, silent: float = 1.0, **v: Any) -> Worker:
    worker = Worker.objects.create(
        host=host, pid=pid, slots=4, busy=busy, version="0.1.0", **v
    )
    Worker.objects.filter(pk=worker.pk).update(
        heartbeat_at=shown.ago(seconds=silent), started_at=shown.ago(hours=19)
    )
    return worker


def _ended(
    status: str, kind: str, agent: Agent | None, minutes: float, **values: Any
) -> BuildJob:
    start = shown.ago(minutes=minutes)
    return make_job(
        status,
        agent=agent,
        payload=shown.payload_of(kind),
        created_at=start - timedelta(seconds=4),
        first_started_at=start,
        completed_at=start + timedelta(seconds=40 + 13 * (minutes % 7)),
        attempt=values.pop("attempt", 1),
        **values,
    )


def build() -> BuildJob:
    """Fill the tables; return the job whose page is shown."""
    owner = str(make_user("operator").pk)
    first = _worker("builder-1", 4121, 1)
    second = _worker("builder-2", 918, 2, queues=["default", "reports"])
    _worker("builder-3", 2204, 1, silent=205, queues=["default"])
    search = make_agent(owner, name="search-api", status="running", version="2.3.0")
    mail, prices = make_agent(owner, name="mail-digest"), make_agent(name="price-watch")

    for number, minutes in enumerate(range(7, 98, 9)):
        _ended("done", "upload", (search, mail, prices)[number % 3], minutes)
    _ended("done", "agent_stop", prices, 31)
    _ended("done", "send_invoice", None, 12, queue="mail")
    _failures(mail, prices)
    _waiting(mail, prices)
    _running(prices, second, 95, "upload")
    report = _running(None, second, 21, REPORT, queue="reports")
    for seq, stream, text in ((1, "stdout", COLORED), (2, "stderr", "region 7: none")):
        shown.print_line(report, report.lease_id, 1, seq, stream, f"{text}\n")
    return shown.build(search, first, owner)


def _failures(mail: Agent, prices: Agent) -> None:
    _ended(
        "failed",
        "upload",
        mail,
        3,
        failures=1,
        error_code="dependency_failed",
        error_msg="pip could not install requirements.txt: ERROR: No matching "
        "distribution found for imap-tools>=9",
    )
    _ended(
        "failed",
        "upload",
        prices,
        26,
        failures=1,
        error_code="health_timeout",
        error_msg="the new instance is not healthy: not healthy after 30 tries: "
        "nothing listens on port 20144 yet",
    )
    _ended(
        "failed",
        REPORT,
        None,
        44,
        queue="reports",
        attempt=3,
        crashes=3,
        error_code="max_attempts_exhausted",
        error_msg=f"max attempts exceeded: {shown.SIGKILLED}",
    )
    _ended(
        "failed",
        "send_invoice",
        None,
        52,
        queue="mail",
        attempt=3,
        crashes=3,
        error_code="max_attempts_exhausted",
        error_msg="max attempts exceeded: it ran longer than its limit of 60 s",
    )
    _ended(
        "failed",
        "upload",
        mail,
        75,
        failures=1,
        error_code="needs_container_backend",
        error_msg="Dockerfile line 4: RUN apt-get install -y ffmpeg needs a container "
        "backend; the local backend installs requirements.txt and starts Python, no "
        "more",
    )
    _ended(
        "cancelled",
        "upload",
        prices,
        48,
        error_code="cancelled",
        error_msg="wrong branch",
    )


def _waiting(mail: Agent, prices: Agent) -> None:
    make_job(
        "pending",
        agent=mail,
        priority=10,
        payload=shown.payload_of("upload"),
        serial_key=f"agent:{mail.pk}",
        due_at=shown.ago(minutes=2, seconds=14),
        created_at=shown.ago(minutes=2, seconds=14),
    )
    make_job("pending", agent=prices, payload=shown.payload_of("agent_delete"))
    make_job(
        "scheduled",
        queue="mail",
        payload=shown.payload_of("send_invoice"),
        failures=1,
        attempt=1,
        due_at=timezone.now() + timedelta(minutes=4),
        created_at=shown.ago(minutes=5),
    )
    decided.asks()
    decided.waits_for_approval()


def _running(
    agent: Agent | None, worker: Worker, seconds: float, kind: str, **values: Any
) -> BuildJob:
    return make_job(
        "in_progress",
        agent=agent,
        payload=shown.payload_of(kind),
        worker=worker.pk,
        created_at=shown.ago(seconds=seconds + 3),
        first_started_at=shown.ago(seconds=seconds),
        picked_at=shown.ago(seconds=seconds),
        **values,
    )
