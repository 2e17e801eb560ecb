"""How is told where a source came from? Its repository and commit, without any login.

Addresses were stored by others. Only one of https is a link; of what may hold a token,
user, password, query and fragment, nothing is shown.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from . import display
from .masking import MASK, masked

# Where a commit is seen, below the address of its repository.
_COMMITS = {
    "github.com": "commit",
    "gitlab.com": "-/commit",
    "bitbucket.org": "commits",
}
_HASH = re.compile(r"[0-9a-f]{7,64}")


def plain(address: str | None) -> str:
    """Return an address as it may be shown."""
    text = address or ""
    if "://" not in text:
        return str(masked(text))
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return MASK


def repository(address: str | None) -> display.Shown:
    """Return a repository, a link where its address is one of https."""
    shown = plain(address)
    return display.outside(shown) if shown.startswith("https://") else _words(shown)


def commit(address: str | None, name: str | None) -> display.Shown:
    """Return a commit, a link where its host is known to show commits."""
    shown = display.mono(name)
    home = plain(address).removesuffix("/").removesuffix(".git")
    below = _COMMITS.get(_host_of(home)) if home.startswith("https://") else None
    if name and below and _HASH.fullmatch(name):
        return display.link(f"{home}/{below}/{name}", shown)
    return shown


def _host_of(address: str) -> str:
    return address.removeprefix("https://").partition("/")[0].lower()


def _words(text: str) -> str:
    return text or display.NOTHING
