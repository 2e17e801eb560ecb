"""Which repositories may be fetched, and how is what to fetch named?

Everything that reaches git's command line is checked here first: the address, the ref,
the commit, the token. Pure: no process, no network, so that a submission can ask, too.
No message repeats an address that may hold a password, or a token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from buildqueue.exceptions import Rejected

MIB = 1024 * 1024
ANY_HOST = "*"
DEFAULT_PORTS = {"https": 443, "http": 80}
PROTOCOLS = frozenset(DEFAULT_PORTS)

_MAX_URL, _MAX_REF, _MAX_TOKEN = 2000, 255, 4096
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//|:)?")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")
_PATH = re.compile(r"(/[A-Za-z0-9._~+@%-]+)+")
# A dot, a slash, a backslash or a control character that hides from the checks.
_HIDDEN = re.compile(r"%(2e|2f|5c|7f|[01][0-9a-f])", re.IGNORECASE)
_REF_REFUSED = re.compile(
    r"[\x00-\x20\x7f\ud800-\udfff~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)"
)
_FULL_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAccess:
    """Where repositories may be fetched from."""

    protocols: tuple[str, ...] = ("https",)
    # Exact names; "name:port" for another port than the protocol's, "*" for any name.
    hosts: tuple[str, ...] = ("github.com", "gitlab.com", "bitbucket.org")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLimits:
    """How much a repository may cost."""

    max_bytes: int = 500 * MIB  # on the wire, for the one commit
    max_entries: int = 1000  # files and folders
    max_bytes_out: int = 200 * MIB  # of all files
    timeout_seconds: float = 300.0  # for all of it
    # A transfer that stays below this many bytes a second for this long is given up.
    low_speed_bytes: int = 1000
    low_speed_seconds: int = 60


def check_url(url: str, access: GitAccess) -> str:
    """Return the address in its plain form, or raise Rejected.

    Codes: git_url_invalid, git_protocol_not_allowed, git_credentials_in_url,
    git_host_not_allowed.
    """
    if not url or len(url) > _MAX_URL or url.startswith("-"):
        raise _invalid(f"must have 1 to {_MAX_URL} characters and not begin with '-'")
    if not _TOKEN.fullmatch(url) or "\\" in url:
        raise _invalid("must be plain ASCII without spaces and control characters")
    protocol = _protocol(url)
    if protocol not in access.protocols or protocol not in PROTOCOLS:
        allowed = ", ".join(name for name in access.protocols if name in PROTOCOLS)
        raise Rejected(
            "git_protocol_not_allowed",
            f"repositories are not fetched by {protocol}; "
            f"give an address that begins with one of: {allowed}",
        )
    authority, slash, path = url.partition("://")[2].partition("/")
    host = _host(authority, protocol)
    path = (slash + path).rstrip("/")
    if not _PATH.fullmatch(path) or _HIDDEN.search(path) or "/.." in path:
        raise _invalid("must lead to a repository, without '..', query and fragment")
    _refuse_host(host, access)
    return f"{protocol}://{host}{path}"


def check_ref(ref: str) -> str:
    """Return the name of a branch or tag, or raise Rejected (`git_ref_invalid`)."""
    if (
        not 0 < len(ref) <= _MAX_REF
        or _REF_REFUSED.search(ref)
        or ref.startswith(("-", ".", "/"))
        or ref.endswith((".", "/"))
        or ref == "@"
    ):
        raise Rejected(
            "git_ref_invalid",
            f"{ref[:_MAX_REF]!r} cannot be the name of a branch or tag; "
            "give it as `git branch` or `git tag` shows it",
        )
    return ref


def check_commit(commit: str) -> str:
    """Return the full hash of a commit in lower case, or raise Rejected.

    Codes: git_commit_short for the beginning of one, git_commit_invalid.
    """
    told = commit.lower()
    if _FULL_HASH.fullmatch(told):
        return told
    if re.fullmatch(r"[0-9a-f]{4,39}", told):
        raise Rejected(
            "git_commit_short",
            f"{told} is only the beginning of a commit's hash, and servers do not take "
            "that; give all 40 digits, as `git rev-parse` shows them",
        )
    raise Rejected(
        "git_commit_invalid",
        f"{commit[:80]!r} is not the hash of a commit; give its 40 hexadecimal digits",
    )


def is_commit(name: str) -> bool:
    """Tell whether the name is a full hash, as a branch's name never is."""
    return _FULL_HASH.fullmatch(name.lower()) is not None


def check_token(token: str) -> str:
    """Return the token, or raise Rejected (`git_token_invalid`) that does not show it."""
    if len(token) > _MAX_TOKEN or not _TOKEN.fullmatch(token):
        raise Rejected(
            "git_token_invalid",
            "the token of the repository must be one word of ASCII characters, of at "
            f"most {_MAX_TOKEN}; was it copied with a line end?",
        )
    return token


def _protocol(url: str) -> str:
    """Return what the address is fetched by, ssh for the form user@host:path."""
    found = _SCHEME.match(url)
    if found and found[2]:
        return found[1].lower()
    if found and found[1].lower() in {"file", "ext", *PROTOCOLS}:
        raise _invalid("must be whole: https://host/owner/name")
    if ":" in url.partition("/")[0]:
        return "ssh"
    raise _invalid("must be whole: https://host/owner/name")


def _host(authority: str, protocol: str) -> str:
    if "@" in authority:
        raise Rejected(
            "git_credentials_in_url",
            "the address of the repository holds a user or a password; "
            "give the address without, and the token beside it",
        )
    host = authority.lower()
    if not _HOST.fullmatch(host) or ".." in host:
        raise _invalid("must name a host")
    return host.removesuffix(f":{DEFAULT_PORTS[protocol]}")


def _refuse_host(host: str, access: GitAccess) -> None:
    allowed = {each.lower() for each in access.hosts}
    if host in allowed or (ANY_HOST in allowed and ":" not in host):
        return
    listed = ", ".join(sorted(allowed)) or "none"
    raise Rejected(
        "git_host_not_allowed",
        f"repositories are not fetched from {host}; allowed are: {listed}. "
        "The operator names them in BUILDQUEUE['GIT_HOSTS']",
    )


def _invalid(why: str) -> Rejected:
    return Rejected("git_url_invalid", f"the address of the repository {why}")
