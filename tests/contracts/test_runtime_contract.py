"""Does every runtime keep the promises of `backends.base.Runtime`?"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from dataclasses import replace

import pytest

from buildqueue.backends.base import WorkloadSpec
from buildqueue.backends.localruntime.health import wait_healthy
from buildqueue.exceptions import Rejected
from tests.support.waiting import wait_until

from .conftest import Backend


def _version_at(address: str | None) -> str | None:
    """Return the version that answers at the address, if one does."""
    card = _card_at(address)
    return None if card is None else str(card["version"])


def _card_at(address: str | None) -> dict[str, object] | None:
    try:
        with urllib.request.urlopen(f"{address}/", timeout=30) as answer:
            found: dict[str, object] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (urllib.error.URLError, OSError):
        return None


def _deploy(backend: Backend, spec: WorkloadSpec) -> str:
    """Start, wait for health, promote; return the address."""
    backend.runtime.start(spec)
    report = wait_healthy(
        backend.runtime,
        spec.workload_id,
        spec.instance_id,
        tries=200,
        interval=0.2,
        on_line=lambda line: None,
        cancelled=lambda: False,
    )
    assert report.healthy, report.reason
    workload = backend.runtime.promote(spec.workload_id, spec.instance_id)
    assert workload.address
    return workload.address


def _replicas_at(address: str, requests: int = 12) -> set[object]:
    """Return which replicas answer; every request has to be answered."""
    cards = [_card_at(address) for _ in range(requests)]
    assert all(cards)
    return {card["replica"] for card in cards if card}


def _alive(backend: Backend, workload_id: str) -> list[str]:
    found = backend.runtime.status(workload_id)
    instances = found.instances if found else ()
    return [one.instance_id for one in instances if one.state == "running"]


def test_a_started_instance_is_healthy_and_gets_no_traffic(
    backend: Backend, spec: WorkloadSpec
) -> None:
    started = backend.runtime.start(spec)

    assert started.instance_id == spec.instance_id
    found = backend.runtime.status(spec.workload_id)
    assert found is not None
    assert found.active is None
    assert _version_at(found.address) is None


def test_a_promoted_instance_answers_at_the_address(
    backend: Backend, spec: WorkloadSpec
) -> None:
    address = _deploy(backend, spec)

    assert wait_until(lambda: _version_at(address)) == "1.0.0"


def test_starting_the_same_instance_twice_runs_it_once(
    backend: Backend, spec: WorkloadSpec
) -> None:
    backend.runtime.start(spec)
    backend.runtime.start(spec)

    assert _alive(backend, spec.workload_id) == [spec.instance_id]


def test_a_start_ends_a_candidate_that_was_never_promoted(
    backend: Backend, spec: WorkloadSpec
) -> None:
    backend.runtime.start(spec)
    other = replace(spec, instance_id=str(uuid.uuid4()))
    backend.runtime.start(other)

    assert _alive(backend, spec.workload_id) == [other.instance_id]


def test_the_address_stays_the_same_and_the_old_one_answers_until_the_switch(
    backend: Backend, spec: WorkloadSpec, second: WorkloadSpec
) -> None:
    address = _deploy(backend, spec)
    wait_until(lambda: _version_at(address) == "1.0.0")

    backend.runtime.start(second)
    assert _version_at(address) == "1.0.0"
    again = _deploy(backend, second)

    assert again == address
    assert wait_until(lambda: _version_at(address)) == "1.1.0"
    assert _alive(backend, spec.workload_id) == [second.instance_id]


def test_stopping_a_candidate_leaves_the_active_one(
    backend: Backend, spec: WorkloadSpec, second: WorkloadSpec
) -> None:
    address = _deploy(backend, spec)
    backend.runtime.start(second)

    backend.runtime.stop_instance(spec.workload_id, second.instance_id)
    backend.runtime.stop_instance(spec.workload_id, second.instance_id)

    assert _alive(backend, spec.workload_id) == [spec.instance_id]
    assert wait_until(lambda: _version_at(address)) == "1.0.0"


def test_a_stopped_workload_keeps_its_address_for_the_next_start(
    backend: Backend, spec: WorkloadSpec
) -> None:
    address = _deploy(backend, spec)

    backend.runtime.stop(spec.workload_id)
    backend.runtime.stop(spec.workload_id)
    assert _alive(backend, spec.workload_id) == []
    assert _version_at(address) is None
    again = _deploy(backend, replace(spec, instance_id=str(uuid.uuid4())))

    assert again == address


def test_a_deleted_workload_is_gone_and_never_starts_again(
    backend: Backend, spec: WorkloadSpec
) -> None:
    address = _deploy(backend, spec)

    backend.runtime.delete(spec.workload_id)
    backend.runtime.delete(spec.workload_id)

    assert backend.runtime.status(spec.workload_id) is None
    assert _version_at(address) is None
    listed = {one.workload_id for one in backend.runtime.workloads()}
    assert spec.workload_id not in listed
    with pytest.raises(Rejected) as refused:
        backend.runtime.start(replace(spec, instance_id=str(uuid.uuid4())))
    assert refused.value.code == "workload_deleted"


def test_an_artifact_that_is_not_there_is_rejected(
    backend: Backend, spec: WorkloadSpec
) -> None:
    backend.builder.remove(spec.reference)

    with pytest.raises(Rejected) as refused:
        backend.runtime.start(spec)

    assert refused.value.code == "artifact_missing"


def test_promoting_what_is_not_there_is_rejected(
    backend: Backend, spec: WorkloadSpec
) -> None:
    backend.runtime.start(spec)

    with pytest.raises(Rejected) as refused:
        backend.runtime.promote(spec.workload_id, str(uuid.uuid4()))

    assert refused.value.code == "instance_unknown"


def test_the_output_of_an_instance_can_be_read(
    backend: Backend, spec: WorkloadSpec
) -> None:
    backend.runtime.start(spec)

    lines = wait_until(
        lambda: backend.runtime.logs(spec.workload_id, spec.instance_id, 5)
    )

    assert "sample starts" in lines


def test_an_unknown_workload_has_no_status_and_nothing_to_stop(
    backend: Backend,
) -> None:
    unknown = str(uuid.uuid4())

    backend.runtime.stop(unknown)
    backend.runtime.stop_instance(unknown, "x")

    assert backend.runtime.status(unknown) is None


def test_replicas_of_an_instance_take_turns(
    backend: Backend, spec: WorkloadSpec
) -> None:
    address = _deploy(backend, replace(spec, replicas=3))

    wait_until(lambda: len(_replicas_at(address)) == 3)
    found = backend.runtime.status(spec.workload_id)
    assert found is not None
    assert found.replicas == 3
    assert [one.replicas_running for one in found.instances] == [3]


def test_scaling_changes_the_number_of_the_active_instance(
    backend: Backend, spec: WorkloadSpec
) -> None:
    address = _deploy(backend, spec)

    more = backend.runtime.scale(spec.workload_id, 3)
    wait_until(lambda: len(_replicas_at(address)) == 3)
    less = backend.runtime.scale(spec.workload_id, 1)

    assert (more.replicas, less.replicas) == (3, 1)
    assert len(_replicas_at(address)) == 1
    assert [len(one.replicas) for one in less.instances] == [1]
    assert (more.address, less.active) == (address, spec.instance_id)


def test_scaling_to_nothing_is_rejected(backend: Backend, spec: WorkloadSpec) -> None:
    _deploy(backend, spec)

    with pytest.raises(Rejected) as refused:
        backend.runtime.scale(spec.workload_id, 0)

    assert refused.value.code == "invalid_replicas"


def test_scaling_what_does_not_run_is_rejected(
    backend: Backend, spec: WorkloadSpec
) -> None:
    with pytest.raises(Rejected) as unknown:
        backend.runtime.scale(str(uuid.uuid4()), 2)
    backend.runtime.start(spec)
    with pytest.raises(Rejected) as never_promoted:
        backend.runtime.scale(spec.workload_id, 2)

    assert unknown.value.code == "workload_unknown"
    assert never_promoted.value.code == "workload_stopped"
