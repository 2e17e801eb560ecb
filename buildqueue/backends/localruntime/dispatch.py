"""Which method answers which verb of the control socket, and do its arguments fit?"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, is_dataclass

import buildqueue
from buildqueue.backends.localruntime.specs import checked_replicas, read_spec
from buildqueue.backends.localruntime.verbs import Verbs
from buildqueue.exceptions import Rejected

Shutdown = Callable[[bool], Awaitable[None]]


class Dispatch:
    """Calls verbs by name with arguments by name; results become JSON values."""

    def __init__(self, verbs: Verbs, shutdown: Shutdown) -> None:
        self._verbs, self._shutdown = verbs, shutdown
        self._methods: Mapping[str, Callable[..., object]] = {
            "delete": verbs.delete,
            "logs": self._logs,
            "ping": self._ping,
            "promote": verbs.promote,
            "scale": self._scale,
            "shutdown": self._shut_down,
            "start": self._start,
            "status": verbs.status,
            "stop": verbs.stop,
            "stop_instance": verbs.stop_instance,
            "workloads": verbs.workloads,
        }

    async def __call__(self, verb: str, arguments: Mapping[str, object]) -> object:
        method = self._methods.get(verb)
        if method is None:
            raise Rejected("unknown_verb", f"there is no verb {verb!r}")
        try:
            bound = inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise Rejected("wrong_arguments", f"{verb}: {error}") from None
        for name, value in bound.arguments.items():
            if name.endswith("_id") and not isinstance(value, str):
                raise Rejected("wrong_arguments", f"{name} has to be a string")
        result = method(**bound.arguments)
        if inspect.isawaitable(result):
            result = await result
        return _plain(result)

    async def _start(
        self,
        workload_id: str,
        instance_id: str,
        reference: object,
        env: object,
        replicas: object,
        resources: object,
        writable: object,
        writable_path: object,
    ) -> object:
        spec = read_spec(
            {
                "workload_id": workload_id,
                "instance_id": instance_id,
                "reference": reference,
                "env": env,
                "replicas": replicas,
                "resources": resources,
                "writable": writable,
                "writable_path": writable_path,
            }
        )
        return await self._verbs.start(spec)

    async def _scale(self, workload_id: str, replicas: object) -> object:
        return await self._verbs.scale(workload_id, checked_replicas(replicas))

    async def _logs(self, workload_id: str, instance_id: str, tail: object) -> object:
        if not isinstance(tail, int):
            raise Rejected("wrong_arguments", "tail has to be a number")
        return await self._verbs.logs(workload_id, instance_id, tail)

    async def _shut_down(self, keep_instances: object) -> None:
        await self._shutdown(bool(keep_instances))

    def _ping(self) -> dict[str, object]:
        return {"pid": os.getpid(), "version": buildqueue.__version__}


def _plain(result: object) -> object:
    if isinstance(result, list):
        return [_plain(one) for one in result]
    if is_dataclass(result) and not isinstance(result, type):
        return asdict(result)
    return result
