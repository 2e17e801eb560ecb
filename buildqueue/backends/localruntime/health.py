"""Does the instance answer, and is it the instance that answers?

Healthy is a 200 with a JSON object on a card path, or anything from 200 to 399 on /.
A port that merely listens is not healthy, nor is one on which another process
listens. Redirects are never followed; size and time of an answer are bounded.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from buildqueue.backends.base import InstanceStatus, LineCallback, Runtime
from buildqueue.backends.localruntime.identity import ProcessIdentity
from buildqueue.backends.localruntime.listening import listeners, owns
from buildqueue.backends.localruntime.ports import LOOPBACK
from buildqueue.exceptions import Cancelled

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
ANSWER_LIMIT = 1024 * 1024
ANSWER_SECONDS = 10.0
RAMP = (0.1, 0.2, 0.4, 0.8, 1.6)
LOG_LINES = 20

OVER = frozenset({"exited", "stopped", "environment_unreadable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The verdict on one instance, with the reason in words.

    `code` says what kind of failure it was: health_timeout (it never answered well),
    start_failed (it ended by itself), out_of_memory or environment_unreadable.
    """

    healthy: bool
    reason: str
    card: dict[str, object] | None = None
    code: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: bytes


def check(port: int, pid: int, card_paths: Sequence[str] = CARD_PATHS) -> HealthReport:
    """Ask once. `pid` is the root of the process tree that has to own the port."""
    if ProcessIdentity.of(pid) is None:
        return _unhealthy(f"process {pid} has exited")
    inodes = listeners(port)
    if not inodes:
        return _unhealthy(f"nothing listens on port {port} yet")
    if owns(inodes, pid) is False:
        return _unhealthy(f"a process outside the instance listens on port {port}")
    try:
        return _ask(port, card_paths)
    except (OSError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        return _unhealthy(f"port {port} does not answer HTTP: {why}")


def wait_healthy(
    runtime: Runtime,
    workload_id: str,
    instance_id: str,
    *,
    tries: int = 30,
    interval: float = 3.0,
    on_line: LineCallback,
    cancelled: Callable[[], bool],
) -> HealthReport:
    """Ask until every replica is healthy, one has exited, or the tries are used up.

    The first pauses are short, as most instances are up within a second. Raises
    `Cancelled` as soon as `cancelled()` is true. Changes nothing anywhere.
    """
    report = _unhealthy("it was never asked")
    for seconds in pauses(tries, interval):
        found = instance_of(runtime, workload_id, instance_id)
        if found is None or found.state in OVER:
            return over(runtime, workload_id, instance_id, found)
        before = report
        report = check_all(found)
        if report.reason != before.reason:
            on_line(f"health: {report.reason}")
        if report.healthy:
            return report
        pause(seconds, cancelled)
    return replace(
        report,
        reason=f"not healthy after {tries} tries: {report.reason}",
        code="health_timeout",
    )


def check_all(found: InstanceStatus) -> HealthReport:
    """Ask each replica once; the first that is not healthy decides."""
    report = _unhealthy("it is still being started")
    if found.state != "running":
        return report
    for replica in found.replicas:
        if replica.pid is None or replica.port is None:
            return _unhealthy("it is still being started")
        report = check(replica.port, replica.pid)
        if not report.healthy:
            many = f"replica {replica.number}: " if len(found.replicas) > 1 else ""
            return replace(report, reason=many + report.reason)
    return report


def _ask(port: int, card_paths: Sequence[str]) -> HealthReport:
    for path in card_paths:
        answer = _get(port, path)
        card = _card(answer)
        if card is not None:
            return HealthReport(healthy=True, reason=f"{path} answered", card=card)
    answer = _get(port, "/")
    if 200 <= answer.status <= 399:
        return HealthReport(healthy=True, reason=f"/ answered {answer.status}")
    return _unhealthy(f"/ answered {answer.status}")


def _card(answer: _Answer) -> dict[str, object] | None:
    if answer.status != 200:
        return None
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _get(port: int, path: str) -> _Answer:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_SECONDS)
    connection.connect()
    opened = connection.sock
    # A socket time-out starts anew with each byte; this one ends a trickle as well.
    limit = threading.Timer(ANSWER_SECONDS, _cut, [opened])
    limit.daemon = True
    limit.start()
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        body = response.read(ANSWER_LIMIT + 1)
    finally:
        limit.cancel()
        connection.close()
    if len(body) > ANSWER_LIMIT:
        body = b""  # too long to be a card; the status still counts
    return _Answer(status=response.status, body=body)


def _cut(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


def instance_of(
    runtime: Runtime, workload_id: str, instance_id: str
) -> InstanceStatus | None:
    """Return what the runtime sees of the instance; None when it is gone."""
    workload = runtime.status(workload_id)
    if workload is None:
        return None
    matching = (one for one in workload.instances if one.instance_id == instance_id)
    return next(matching, None)


def over(
    runtime: Runtime, workload_id: str, instance_id: str, found: InstanceStatus | None
) -> HealthReport:
    """Return why an instance that is no longer up is not, with its last lines."""
    if found is None:
        return _failed("the instance is gone", code="start_failed")
    if found.state == "stopped":
        return _failed("the instance was stopped", code="start_failed")
    if found.state == "environment_unreadable":
        return _failed(
            "its environment was sealed with another key; deploy it again",
            code="environment_unreadable",
        )
    lines = runtime.logs(workload_id, instance_id, LOG_LINES)
    text = "\n".join(lines) if lines else "(it printed nothing)"
    reason = f"it {_how(found)}; its last lines:\n{text}"
    code = found.exit_reason or "start_failed"
    return replace(_failed(reason, code=code), exit_code=found.exit_code)


def _how(found: InstanceStatus) -> str:
    exit_code = found.exit_code
    if found.exit_reason == "out_of_memory":
        return "needed more memory than it may have"
    if exit_code is None:
        return "ended in an unknown way"
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"exited with code {exit_code}"


def pauses(tries: int, interval: float) -> Iterator[float]:
    """Yield how long to wait after each try: short at first."""
    for position in range(tries):
        ramp = RAMP[position] if position < len(RAMP) else interval
        yield min(ramp, interval)


def pause(seconds: float, cancelled: Callable[[], bool]) -> None:
    """Wait; raises `Cancelled` as soon as `cancelled()` is true."""
    deadline = time.monotonic() + seconds
    while True:
        if cancelled():
            raise Cancelled("cancelled", "the wait for the instance was cancelled")
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.2))


def _failed(reason: str, *, code: str) -> HealthReport:
    return HealthReport(healthy=False, reason=reason, code=code)


def _unhealthy(reason: str) -> HealthReport:
    return HealthReport(healthy=False, reason=reason)
