"""Which way does PostgreSQL find the rows of a statement?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan, as EXPLAIN tells it."""

    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Return every node, the root first."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    def indexes(self) -> set[str]:
        """Return the indexes it reads."""
        return {n["Index Name"] for n in self.nodes() if "Index Name" in n}

    def scanned(self) -> set[str]:
        """Return the tables that it reads from one end to the other."""
        return {
            n["Relation Name"]
            for n in self.nodes()
            if n["Node Type"] in {"Seq Scan", "Parallel Seq Scan"}
        }

    def sorts(self) -> int:
        """Return how many sorts it does."""
        return sum("Sort" in n["Node Type"] for n in self.nodes())

    def rows_read(self) -> int:
        """Return how many rows its scans found or threw away (needs ANALYZE)."""
        return sum(
            int(n["Actual Rows"] + n.get("Rows Removed by Filter", 0))
            * int(n["Actual Loops"])
            for n in self.nodes()
            if "Scan" in n["Node Type"] and "Relation Name" in n
        )

    def __str__(self) -> str:
        return json.dumps(self.root, indent=1)


def explain(sql: str, params: Sequence[Any] | dict[str, Any], *, run: bool) -> Plan:
    """Return the plan of a statement; `run` has it executed, to see what it read."""
    options = "ANALYZE, TIMING OFF, FORMAT JSON" if run else "FORMAT JSON"
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN ({options}) {sql}", params)
        found = cursor.fetchone()[0]
    read = json.loads(found) if isinstance(found, str) else found
    return Plan(read[0]["Plan"])
