# ruff: noqa: PT027 -- a host may have no pytest
"""Do the assertions find what was enqueued, and say what comes nearest when they do not?"""

from __future__ import annotations

from django.test import TestCase

from buildqueue import enqueue
from buildqueue.testing import assert_enqueued, assert_not_enqueued, enqueued
from tests.host.jobs import Once, Probe


class Asserting(TestCase):
    """Three jobs of two kinds."""

    def setUp(self) -> None:
        self.one = enqueue(Probe(label="one"), owner_id="anna", queue="mail")
        self.two = enqueue(Probe(label="two"), priority=5)
        self.three = enqueue(Once(label="three"))

    def test_they_are_found_by_kind_columns_and_a_part_of_the_payload(self) -> None:
        assert enqueued() == [self.one, self.two, self.three]
        assert enqueued("probe", owner_id="anna") == [self.one]
        assert assert_enqueued("once") == [self.three]
        assert assert_enqueued(payload={"label": "two"}, priority=5) == [self.two]
        assert assert_enqueued(payload=Once(label="three")) == [self.three]
        assert len(assert_enqueued("probe", count=2)) == 2
        assert len(assert_enqueued(count=None)) == 3
        assert_not_enqueued("probe", queue="elsewhere")
        assert_not_enqueued("nobody_knows")

    def test_a_miss_tells_the_nearest_and_all_there_are(self) -> None:
        with self.assertRaises(AssertionError) as raised:
            assert_enqueued("probe", payload={"label": "won"}, owner_id="anna")

        said = str(raised.exception)
        assert (
            "expected 1 job like kind='probe', payload={'label': 'won'}, "
            "owner_id='anna', found 0" in said
        )
        assert f"nearest: {self.one}\n    payload.label is 'one', not 'won'" in said
        assert "enqueued (3):" in said
        assert "queue='mail' owner='anna'" in said

    def test_too_many_and_unwanted_ones_are_told(self) -> None:
        with self.assertRaisesRegex(AssertionError, "expected 1 job .* found 2"):
            assert_enqueued("probe")
        with self.assertRaisesRegex(
            AssertionError, "expected 0 jobs like any, found 3"
        ):
            assert_not_enqueued()
        with self.assertRaisesRegex(AssertionError, "expected at least 1 job"):
            assert_enqueued(queue="elsewhere", count=None)


class Nothing(TestCase):
    """An empty queue."""

    def test_nothing_is_enqueued(self) -> None:
        assert_not_enqueued()

    def test_nothing_at_all_is_told_as_that(self) -> None:
        with self.assertRaisesRegex(AssertionError, "nothing was enqueued"):
            assert_enqueued("probe")
