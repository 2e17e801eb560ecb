"""What is known of a failure beside its code?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

# Who can do something: the owner about the source or what was asked for, or the operator.
Whose = Literal["source", "host", "request"]
Rows = Mapping[str, tuple[str, str]]  # code -> what it means, what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A way in which a build, a deployment or a request for one ends badly."""

    code: str
    whose: Whose
    means: str
    hint: str  # what to do, in a sentence


def of(whose: Whose, rows: Rows) -> Iterator[tuple[str, Failure]]:
    """Yield the failures of a table, by their code."""
    for code, (means, hint) in rows.items():
        yield code, Failure(code=code, whose=whose, means=means, hint=hint)
