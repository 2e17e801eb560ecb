"""How is docs/reference/build-codes.md made?

Of the table of failures. To write it:
`DJANGO_SETTINGS_MODULE=tests.settings python -m tests.docs.build_codes`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import django

from tests.architecture.product import ROOT

PAGE = ROOT / "docs/reference/build-codes.md"
HEAD = """\
# Codes of builds

What stands in the `error_code` of a build, beside its reason and a hint, when a build or a
deployment did not end well, and in `code` when a request for one is refused. Codes are
stable; the words beside one are for people. What any job can end with is told in
[Codes of jobs](job-codes.md).

Who can do something: the owner about the *source*, or about the *request*; the operator
about the *host*.
"""


def page() -> str:
    """Return the page as it has to be."""
    from buildqueue.builds.failures import PARTS  # once Django is set up

    return HEAD + "".join(
        f"\n## {title}\n\n" + "\n".join([*_rows(part.values()), ""])
        for title, part in PARTS.items()
    )


def _rows(failures: Iterable[Any]) -> Iterator[str]:
    yield "| code | what happened | what to do | where |"
    yield "|---|---|---|---|"
    for failure in failures:
        told = f"{failure.means} | {failure.hint} | {failure.whose}"
        yield f"| `{failure.code}` | {told} |"


if __name__ == "__main__":
    django.setup()
    PAGE.write_text(page())
