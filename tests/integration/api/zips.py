"""Which zips do the tests upload? Good ones, and each kind that is refused."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Callable, Mapping

GOOD = {"main.py": "print('hello')\n"}


def make_zip(files: Mapping[str, str | bytes] = GOOD) -> bytes:
    """Return a zip with these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zip_with_link() -> bytes:
    """Return a zip with a symbolic link to a file of the host."""
    buffer = io.BytesIO()
    link = zipfile.ZipInfo("passwords")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("main.py", "")
        archive.writestr(link, "/etc/passwd")
    return buffer.getvalue()


def zip_bomb() -> bytes:
    """Return a zip that unpacks to more than is allowed."""
    return make_zip({**GOOD, "zeros": bytes(201 * 1024 * 1024)})


# name -> (maker, code)
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "not a zip": (lambda: b"this is a text file", "invalid_archive"),
    "cut off": (lambda: make_zip()[:-30], "invalid_archive"),
    "no bytes": (lambda: b"", "invalid_archive"),
    "empty zip": (lambda: make_zip({}), "archive_empty"),
    "bomb": (zip_bomb, "archive_bomb"),
    "traversal": (lambda: make_zip({**GOOD, "../evil.py": ""}), "archive_unsafe_name"),
    "absolute": (lambda: make_zip({**GOOD, "/etc/evil": ""}), "archive_unsafe_name"),
    "link": (zip_with_link, "archive_link"),
    "too many entries": (
        lambda: make_zip({**GOOD, **{f"f{n}": "" for n in range(1001)}}),
        "archive_too_many_entries",
    ),
    "no entry point": (lambda: make_zip({"readme.txt": "hi"}), "no_dockerfile"),
}
