"""What does a process of git see? A clean environment, made here and nowhere else.

Of the host only the ways to the network get in: proxies and certificates. No
configuration of the machine or the user is read. The token is in the environment alone,
as a header for the one host it is for, and only where the network is needed.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from buildqueue.backends.gitaddress import GitAccess, GitLimits
from buildqueue.backends.launching import SYSTEM_PATH

_OF_HOST = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO"),
)
# Servers take any user beside a token, but for one.
_USER, _USERS = "x-access-token", {"bitbucket.org": "x-token-auth"}
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "credential.helper": "",
    "http.followRedirects": "false",
    "protocol.version": "2",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
    "transfer.fsckObjects": "true",
    # Sins of old versions of git, harmless, and in honest repositories for ever.
    "fetch.fsck.zeroPaddedFilemode": "ignore",
    "fetch.fsck.badTimezone": "ignore",
    # One pack, never loose files; large contents are streamed, not held.
    "fetch.unpackLimit": "1",
    "core.bigFileThreshold": "8m",
    "core.packedGitWindowSize": "16m",
    "core.packedGitLimit": "128m",
    "pack.threads": "1",
    # Nothing goes on in the background.
    "gc.auto": "0",
    "maintenance.auto": "false",
}


def environment(
    program: str, *, access: GitAccess, repository: Path | None
) -> dict[str, str]:
    """Return the environment of git, without its settings."""
    env = {name: os.environ[name] for name in _OF_HOST if name in os.environ}
    env |= {
        "PATH": f"{Path(program).parent}:{SYSTEM_PATH}",
        "HOME": "/nonexistent",
        "LC_ALL": "C",  # what went wrong is read from its words
        "GIT_ALLOW_PROTOCOL": ":".join(access.protocols),
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_SSH_COMMAND": "false",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if repository is not None:
        env["GIT_DIR"] = str(repository)
    return env


def settings(limits: GitLimits) -> dict[str, str]:
    """Return what git is told to do and not to do."""
    return _SETTINGS | {
        "http.lowSpeedLimit": str(limits.low_speed_bytes),
        "http.lowSpeedTime": str(limits.low_speed_seconds),
    }


def authorization(url: str, token: str | None) -> dict[str, str]:
    """Return the setting that shows the token to the host of the address alone."""
    if not token:
        return {}
    at = urlsplit(url)
    header = f"Authorization: Basic {_credentials(url, token)}"
    return {f"http.{at.scheme}://{at.netloc}/.extraHeader": header}


def as_environment(told: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables: an argument list is for everybody to read."""
    env = {"GIT_CONFIG_COUNT": str(len(told))}
    for number, (key, value) in enumerate(told.items()):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env


def secret_forms(url: str, token: str | None) -> tuple[str, ...]:
    """Return every form in which the token may come back, the longest first."""
    if not token:
        return ()
    plain = base64.b64encode(token.encode()).decode()
    forms = {_credentials(url, token), plain, plain.rstrip("="), quote(token, safe="")}
    forms |= {token, token.partition(":")[2] or token}
    return tuple(sorted(forms, key=len, reverse=True))


def _credentials(url: str, token: str) -> str:
    """Return user and token as HTTP wants them; "user:token" names its own user."""
    host = urlsplit(url).hostname or ""
    pair = token if ":" in token else f"{_USERS.get(host, _USER)}:{token}"
    return base64.b64encode(pair.encode()).decode()
