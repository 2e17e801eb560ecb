"""What can be wrong with a source: uploaded, packed or stored?"""

from __future__ import annotations

from typing import Final

from .failure import Failure, Rows, of

ARCHIVE: Final[Rows] = {
    "invalid_archive": (
        "what was uploaded is neither a sound zip nor a tar",
        "Pack the source again, as a zip or a tar.gz, and upload that.",
    ),
    "archive_corrupt": (
        "the archive is damaged, cut short, or followed by other bytes",
        "Pack the source again and upload it whole; nothing may follow the archive.",
    ),
    "archive_empty": (
        "the archive holds no file",
        "Add the source: at least a Dockerfile or an entry point.",
    ),
    "archive_encrypted": (
        "the archive is locked with a password",
        "Pack it without a password; secrets belong into the agent's environment.",
    ),
    "archive_compression": (
        "the archive is packed in a way that is not read here, or needs too much memory",
        "Pack it with the usual settings: zip with deflate, or tar.gz.",
    ),
    "archive_bomb": (
        "the archive unpacks to far more than a source may take",
        "Leave out data, models and virtual environments; fetch them when it runs.",
    ),
    "archive_too_large": (
        "the archive has more bytes than are taken",
        "Leave out what is not needed to run it: .git, virtual environments, data.",
    ),
    "archive_too_many_entries": (
        "the archive has more files and folders than are taken",
        "Leave out node_modules, virtual environments and caches.",
    ),
    "archive_duplicate": (
        "two entries of the archive have the same name, or differ only in case",
        "Rename one of them, and pack the source again.",
    ),
    "archive_unsafe_name": (
        "an entry's name leads out of the source, or cannot be a file's name",
        "Rename the entry that is named, and pack from inside the source's folder.",
    ),
    "archive_link": (
        "an entry of the archive is a link that is not taken",
        "Replace the link by the file itself.",
    ),
    "archive_special_file": (
        "an entry of the archive is a device, a socket or a pipe",
        "Remove it: a source is made of files and folders.",
    ),
}
TREE: Final[Rows] = {
    "hard_link_refused": (
        "a file of the tree has a second name",
        "Replace the hard link by a copy of the file.",
    ),
    "link_leaves_source": (
        "a link leads out of the source",
        "Replace it by the file itself, or by a link inside of the source.",
    ),
    "special_file_refused": (
        "the source holds a device, a socket or a pipe",
        "Remove it: a source is made of files and folders.",
    ),
    "tree_too_deep": (
        "folders are nested deeper than is taken",
        "Flatten the folders of the source.",
    ),
    "source_missing": (
        "the stored source is gone, or its storage is not this host's",
        "Upload the source again.",
    ),
    "source_damaged": (
        "the stored source is not what was uploaded",
        "Upload it again; tell the operator when it happens twice.",
    ),
}
STORING: Final[Rows] = {
    "source_unreadable": (
        "the storage of sources cannot be read now",
        "It is tried again. If it stays: check the storage and its credentials.",
    ),
    "source_not_stored": (
        "the storage of sources did not take the source",
        "Try again later. If it stays: is the storage full, or its access gone?",
    ),
    "sources_not_pruned": (
        "old sources could not be removed from their storage",
        "It is tried again. If it stays: check the storage and its credentials.",
    ),
    "archive_unreadable": (
        "the archive cannot be read from this host's disk",
        "It is tried again. If it stays: check the disk and the folder's permissions.",
    ),
    "archive_not_extracted": (
        "the archive could not be unpacked here",
        "It is tried again. If it stays: is the disk full, or the folder read-only?",
    ),
    "archive_not_packed": (
        "the tree could not be packed here",
        "It is tried again. If it stays: is the disk full, or the folder read-only?",
    ),
}
FAILURES: Final[dict[str, Failure]] = {
    **dict(of("source", ARCHIVE)),
    **dict(of("source", TREE)),
    **dict(of("host", STORING)),
}
