"""How is a source taken that was sent along? Counted, unpacked on trial, then stored.

What an archive states as its version is read on the way. A refused one leaves nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ...backends.archives import extract_archive
from ...backends.localplan import plan_source
from ...exceptions import Refused, Rejected, Unavailable
from .. import sources, versions
from ..payloads import StoredSource

PREFIX = "buildqueue-upload-"  # of the temporary folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A source that is stored, and the version that it states."""

    source: StoredSource
    stated: str | None


def take(source: BinaryIO) -> Taken:
    """Store the source; Refused when it cannot be built, or not be stored now."""
    with _checked(source) as (spooled, stated):
        return Taken(source=sources.keep(spooled), stated=stated)


@contextmanager
def _checked(source: BinaryIO) -> Iterator[tuple[sources.Spooled, str | None]]:
    """Yield the source in a local file and the version it states; refuse a bad one."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        spooled = sources.spool(source, Path(folder) / "source")
        tree = Path(folder) / "tree"
        try:
            extract_archive(spooled.path, tree, sources.archive_limits())
            plan_source(tree)
            stated = versions.read_version(tree)
        except Rejected as error:
            raise Refused(
                error.code, str(error), fields={"source": str(error)}
            ) from error
        except Unavailable as error:
            raise Refused(error.code, str(error), status=503) from error
        yield spooled, stated
