"""Which function runs a kind, with which payload, and what happens when it ends?

    # shop/jobs.py of any installed app
    class Invoice(BaseModel, extra="forbid"):
        kind: Literal["send_invoice"] = "send_invoice"
        order_id: int

    @handler("send_invoice", payload=Invoice)
    def send_invoice(ctx: Context, payload: Invoice) -> None: ...

A final hook is registered apart from the function: it runs in the transaction that
ends the job, in whatever process ends it, and needs no payload that parses. A kind that
nobody registered, and a payload that does not parse, reach the fallback hook, so that
their target ends too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, ValidationError

from .. import conf
from ..exceptions import InvalidPayload, UnknownKind
from ..models import BuildJob
from .failures import Backoff
from .limits import UNLIMITED, Limits
from .outcomes import Outcome

if TYPE_CHECKING:
    from .context import Context

HandlerFunction = Callable[["Context", Any], Outcome | None]
Hook = Callable[[BuildJob], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """All that the engine knows of a kind."""

    kind: str
    function: HandlerFunction | None  # None: only parsed and hooked, run by nobody here
    payload: type[BaseModel]
    aliases: tuple[str, ...] = ()
    queue: str = "default"
    max_attempts: int | None = None  # None: the setting's
    backoff: Backoff | None = None  # None: the settings'
    limits: Limits = UNLIMITED
    again_after_death: bool = True  # False: a run that died fails its job at once
    isolated: bool = False  # a fresh process for each job
    services: tuple[str, ...] = ()  # of its host, started before it; dotted paths
    on_final: Hook | None = None
    on_reopen: Hook | None = None  # before a retry of an ended job; may refuse

    def parse(self, payload: Mapping[str, Any]) -> BaseModel:
        """Return the payload as the kind's model; InvalidPayload tells each fault."""
        try:
            return self.payload.model_validate(payload)
        except ValidationError as error:
            faults = {
                ".".join(map(str, fault["loc"])) or "payload": fault["msg"]
                for fault in error.errors(include_input=False, include_url=False)
            }
            raise InvalidPayload(self.kind, faults) from None


_handlers: dict[str, Handler] = {}
_fallback: list[Handler] = []


def register(made: Handler) -> None:
    """Make a kind known; a second, different handler for a kind is refused."""
    for name in (made.kind, *made.aliases):
        if (known := _handlers.get(name)) and known.function is not made.function:
            raise ImproperlyConfigured(f"kind {name!r} has two handlers")
        _handlers[name] = made


def handler(
    kind: str, *, payload: type[BaseModel], **options: Any
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function for a kind; options are `Handler`'s fields."""

    def decorate(function: HandlerFunction) -> HandlerFunction:
        register(Handler(kind=kind, function=function, payload=payload, **options))
        return function

    return decorate


def register_fallback(*, on_final: Hook, on_reopen: Hook) -> None:
    """Set the hooks of jobs whose kind nobody registered."""
    _fallback[:] = [
        Handler(
            kind="",
            function=None,
            payload=BaseModel,
            on_final=on_final,
            on_reopen=on_reopen,
        )
    ]


def get(kind: str) -> Handler:
    """Return the kind's handler, by its name or an alias; UnknownKind tells the rest."""
    try:
        return _handlers[kind]
    except KeyError:
        raise UnknownKind(kind, kinds()) from None


def hooks_of(kind: str) -> Handler | None:
    """Return who holds the hooks of a kind: its handler, or the fallback."""
    return _handlers.get(kind) or (_fallback[0] if _fallback else None)


def backoff_of(kind: str) -> Backoff:
    """Return how long jobs of the kind wait before they are tried again."""
    known = _handlers.get(kind)
    if known is not None and known.backoff is not None:
        return known.backoff
    now = conf.get()
    return Backoff(
        base_seconds=now.backoff_base_seconds,
        max_seconds=now.backoff_max_seconds,
        jitter=now.backoff_jitter,
    )


def kinds() -> list[str]:
    """Return the registered kinds, without aliases."""
    return sorted({known.kind for known in _handlers.values() if known.function})


def names() -> list[str]:
    """Return every name under which a kind is known, aliases included."""
    return sorted(_handlers)


def load_own_kinds() -> None:
    """Register the kinds that buildqueue brings itself."""
    import_module("buildqueue.executors")
