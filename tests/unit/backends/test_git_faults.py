"""Is what git says understood, and nothing else?"""

from __future__ import annotations

import signal

import pytest

from buildqueue.backends.gitfaults import fault_of
from buildqueue.exceptions import BackendError, Rejected, Unavailable


def fault(*lines: str, code: int = 128) -> BackendError:
    return fault_of(lines, code, lambda text: text.replace("secret", "***"))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("unable to access 'URL': The requested URL returned error: 401", "denied"),
        ("Authentication failed for 'URL'", "denied"),
        ("repository 'URL' not found", "not_found"),
        ("unable to access 'URL': The requested URL returned error: 503", "unreach"),
        ("unable to access 'URL': Received HTTP code 407 from proxy", "unreach"),
        ("unable to access 'URL': Could not resolve host: git.example", "unreach"),
        ("unable to access 'URL': gnutls_handshake() failed: TLS ended", "unreach"),
        ("unable to access 'URL': SSL certificate problem: expired", "certificate"),
        ("unable to access 'URL': Operation timed out after 300 s", "timed_out"),
        ("the remote end hung up unexpectedly", "unreach"),
        ("write error: No space left on device", "not_written"),
        ("Out of memory, malloc failed (tried to allocate 99 bytes)", "too_large"),
        ("'URL' not valid: is this a git repository?", "answer_invalid"),
        ("dumb http transport does not support shallow capabilities", "answer_invalid"),
        ("something that nobody has seen before", "git_failed"),
    ],
)
@pytest.mark.parametrize("name", ["app", "certificate-503-hasDotgit-index-pack"])
def test_a_line_means_the_same_whatever_the_repository_is_called(
    line: str, code: str, name: str
) -> None:
    found = fault("fatal: " + line.replace("URL", f"https://git.example/{name}"))

    assert code in found.code


def test_the_first_of_several_lines_is_shown() -> None:
    found = fault(
        "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502",
        "fatal: expected 'packfile'",
    )

    assert (type(found), found.code) == (Unavailable, "git_unreachable")
    assert "HTTP 502" in str(found)


def test_what_the_server_says_decides_nothing() -> None:
    found = fault("remote: fatal: repository 'x' not found", "warning: fsck error")

    assert (type(found), found.code) == (Unavailable, "git_failed")


def test_a_limit_that_ends_git_means_too_large() -> None:
    found = fault(code=-signal.SIGXFSZ)

    assert (type(found), found.code) == (Rejected, "git_too_large")
    assert found.exit_code == -signal.SIGXFSZ


def test_the_message_and_the_detail_are_masked() -> None:
    found = fault("fatal: the secret is out")

    assert "secret" not in str(found) + found.detail
    assert "the *** is out" in found.detail
