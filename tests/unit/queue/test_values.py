"""Do the engine's small values keep their word: kinds, results, places in a log?"""

from __future__ import annotations

import json

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from buildqueue.exceptions import InvalidPayload, UnknownKind
from buildqueue.queue import handlers
from buildqueue.queue.context import Context
from buildqueue.queue.logs import Position, storable, storable_json
from buildqueue.queue.outcomes import Done


class Order(BaseModel, extra="forbid"):
    """A payload."""

    kind: str = "order"
    number: int


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_handlers", {})
    monkeypatch.setattr(handlers, "_fallback", [])


def test_a_kind_is_found_by_its_name_and_its_aliases() -> None:
    @handlers.handler("order", payload=Order, aliases=("Order",), queue="shop")
    def order(ctx: Context, payload: Order) -> None: ...

    assert handlers.get("order").function is order
    assert handlers.get("Order") is handlers.get("order")
    assert handlers.kinds() == ["order"]
    assert handlers.names() == ["Order", "order"]
    assert handlers.hooks_of("order") is handlers.get("order")


def test_a_second_handler_for_a_kind_is_refused() -> None:
    @handlers.handler("order", payload=Order)
    def order(ctx: Context, payload: Order) -> None: ...

    handlers.handler("order", payload=Order)(order)  # the same one: a second import
    with pytest.raises(ImproperlyConfigured, match="two handlers"):

        @handlers.handler("order", payload=Order)
        def other(ctx: Context, payload: Order) -> None: ...


def test_an_unknown_kind_is_told_beside_the_known_ones() -> None:
    with pytest.raises(UnknownKind, match="registered kinds: none"):
        handlers.get("order")
    assert handlers.hooks_of("order") is None


def test_the_fallback_holds_the_hooks_of_unknown_kinds() -> None:
    def hook(job: object) -> None: ...

    handlers.register_fallback(on_final=hook, on_reopen=hook)

    found = handlers.hooks_of("nobody")
    assert found is not None
    assert found.on_final is hook


@pytest.mark.parametrize("payload", [{}, {"number": "x"}, {"number": 1, "typo": 2}, []])
def test_a_payload_that_does_not_fit_is_told_field_by_field(payload: dict) -> None:
    handlers.handler("order", payload=Order)(lambda ctx, payload: None)

    with pytest.raises(InvalidPayload) as refused:
        handlers.get("order").parse(payload)

    assert refused.value.errors
    assert all(isinstance(why, str) for why in refused.value.errors.values())


@pytest.mark.parametrize(
    "result", [{"x": object()}, {"x": {1, 2}}, {"x": float("nan")}]
)
def test_a_result_that_is_not_json_is_refused_where_it_is_made(result: dict) -> None:
    with pytest.raises((TypeError, ValueError)):
        Done(result=result)


def test_a_place_in_a_log_is_written_and_read_back() -> None:
    assert str(Position(2, 15)) == "2.15"
    assert Position.parse("2.15") == Position(2, 15)
    assert Position.parse("2") == Position(2, 0)
    assert Position() < Position(1, 1) < Position(1, 2) < Position(2, 1)


@pytest.mark.parametrize("text", ["", "x", "1.x", "-1.2", "1.-2", "1.99999999999", "."])
def test_what_is_no_place_in_a_log_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any message will do
        Position.parse(text)


@given(st.text(st.characters(exclude_categories=())))
def test_a_storable_text_is_utf8_without_nul_and_otherwise_the_same(text: str) -> None:
    clean = storable(text)

    assert "\x00" not in clean
    clean.encode("utf-8")
    assert len(clean) == len(text)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.characters(exclude_categories=())),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.text(st.characters(exclude_categories=())), inner)
        ),
        max_leaves=10,
    )
)
def test_every_text_of_a_storable_value_is_storable(value: object) -> None:
    told = json.dumps(storable_json(value), ensure_ascii=False)

    told.encode("utf-8")
    assert "\\u0000" not in told
