"""How does a folder become an archive that is the same wherever it is packed?

A tar.gz, sorted, without times, owners and the packer's name: the same tree gives the
same bytes (with the same zlib), so that its checksum can be its name. Extracting it
gives the tree back; what an extraction would refuse or drop is refused or left out
here. If the process dies half-way, a partial file is the caller's to remove.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from buildqueue.backends.archivenames import Entry, checked_members, refused
from buildqueue.exceptions import Unavailable

# Everything lies in one top folder, which an extraction drops: without it, it would
# drop a single folder of the tree's own.
_TOP = "source"
_LEVEL = 6


def pack_tree(tree: Path, file: Path) -> None:
    """Pack the folder into a new file, a tar.gz; a refused tree leaves none."""
    try:
        entries = [_entry(tree, path, index) for index, path in enumerate(_below(tree))]
        members, _ = checked_members(entries)
        with file.open("xb") as stream:
            try:
                _write(stream, tree, [member.entry for member in members])
            except BaseException:
                file.unlink()
                raise
    except FileExistsError:
        raise  # the caller's mistake
    except OSError as error:
        raise Unavailable(
            "archive_not_packed",
            f"the tree could not be packed: {error.strerror or error}",
        ) from error


def _write(stream: IO[bytes], tree: Path, entries: list[Entry]) -> None:
    with (
        gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in entries:
            _add(archive, tree / entry.name.removeprefix(f"{_TOP}/"), entry)


def _add(archive: tarfile.TarFile, path: Path, entry: Entry) -> None:
    header = tarfile.TarInfo(entry.name)
    header.mode = 0o755 if entry.is_folder or entry.is_program else 0o644
    if entry.is_folder:
        header.type = tarfile.DIRTYPE
        archive.addfile(header)
        return
    header.size = entry.size
    # Looked at as a regular file before: what became a link meanwhile is not followed.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
        archive.addfile(header, stream)


def _below(tree: Path) -> Iterator[Path]:
    """Yield all that lies in the folder, each folder before what it holds, sorted."""
    waiting = _listed(tree)
    while waiting:
        path = waiting.pop()
        yield path
        if path.is_dir() and not path.is_symlink():
            waiting += _listed(path)


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=os.fsencode, reverse=True)


def _entry(tree: Path, path: Path, index: int) -> Entry:
    name = path.relative_to(tree).as_posix()
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise refused("archive_link", name, "is a link; replace it by the file itself")
    is_folder = stat.S_ISDIR(found.st_mode)
    if not is_folder and not stat.S_ISREG(found.st_mode):
        raise refused("archive_special_file", name, "is neither a file nor a folder")
    return Entry(
        name=f"{_TOP}/{name}",
        index=index,
        is_folder=is_folder,
        is_program=bool(found.st_mode & 0o100),
        size=0 if is_folder else found.st_size,
    )
