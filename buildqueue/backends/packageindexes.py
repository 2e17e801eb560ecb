"""Which of the host's settings does a confined pip need to reach the package indexes?

Named ones only: indexes, certificates and proxies, never the worker's environment as a
whole. What they hold, the passwords in an index URL included, can be read by the code
that pip runs; a host whose index needs a secret puts a proxy in between.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PIP = (
    *("CERT", "CONFIG_FILE", "CONSTRAINT", "DEFAULT_TIMEOUT", "EXTRA_INDEX_URL"),
    *("FIND_LINKS", "INDEX_URL", "NO_BINARY", "NO_INDEX", "ONLY_BINARY"),
    *("PREFER_BINARY", "PROXY", "RETRIES", "TIMEOUT", "TRUSTED_HOST"),
)
_TLS = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
ALLOWED = frozenset(
    {f"PIP_{name}" for name in _PIP}
    | set(_TLS)
    | set(_PROXIES)
    | {name.lower() for name in _PROXIES}
)
_SYSTEM_CONFIGS = (Path("/etc/pip.conf"), Path("/etc/xdg/pip/pip.conf"))


def index_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may be passed on."""
    return {name: value for name, value in environ.items() if name in ALLOWED}


def index_paths(env: Mapping[str, str]) -> list[Path]:
    """Return the files and folders that the variables and pip's settings name."""
    configs = [*_SYSTEM_CONFIGS, Path(env.get("PIP_CONFIG_FILE", os.devnull))]
    named = set(_paths(env.values()))
    for config in configs:
        named.update(_paths(_values(config)), _paths([str(config)]))
    return sorted(named)


def _values(config: Path) -> list[str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(config)
    except (configparser.Error, OSError, UnicodeDecodeError):
        # pip says itself what is wrong with its settings.
        return []
    return [
        value for section in parser.sections() for _, value in parser.items(section)
    ]


def _paths(values: Iterable[str]) -> Iterator[Path]:
    for value in values:
        for word in value.split():
            local = word.startswith("file:")
            path = Path(unquote(urlsplit(word).path) if local else word)
            special = path.is_relative_to("/dev") or path == Path("/")
            if path.is_absolute() and not special and path.exists():
                yield path
