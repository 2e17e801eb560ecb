"""How does a test get an archive? From a mapping of names to contents."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

AGENT = {"main.py": "# an agent\n"}


def zipped(files: Mapping[str, str] | None = None) -> io.BytesIO:
    """Return a zip of the files, ready to be read; by default a small agent."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (AGENT if files is None else files).items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream
