"""Is the token of a private repository seen by its server alone?

While the server is asked, every process of the machine and every file of the fetch is
searched for it, in each form in which it travels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from buildqueue.backends.git import (
    Fetched,
    GitAccess,
    GitFetch,
    GitLimits,
    fetch_tree,
    resolve_ref,
)
from buildqueue.backends.gitenvironment import authorization, secret_forms
from buildqueue.exceptions import BackendError, Rejected
from tests.support.gitserver import GitServer, git_server

NAME, TOKEN = "team/private", "gh0st+T0ken/7f3a%9b=="


@pytest.fixture
def server() -> Iterator[GitServer]:
    with git_server() as server:
        server.repository(NAME).commit({"main.py": "private"})
        server.require_token(TOKEN)
        yield server


def access(server: GitServer) -> GitAccess:
    return GitAccess(protocols=("http",), hosts=(server.host,))


def fetch(server: GitServer, folder: Path, lines: list[str], token: str) -> Fetched:
    return fetch_tree(
        GitFetch(url=server.url(NAME), token=token),
        folder / "source",
        access=access(server),
        limits=GitLimits(),
        on_line=lines.append,
    )


def forms(server: GitServer, token: str = TOKEN) -> tuple[str, ...]:
    return secret_forms(server.url(NAME), token)


def holds(text: str, secrets: tuple[str, ...]) -> bool:
    return any(secret in text for secret in secrets)


def read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # it has just ended, or is no file
        return ""


def test_it_is_in_no_argument_list_and_in_no_file(
    server: GitServer, tmp_path: Path
) -> None:
    argument_lists: list[str] = []
    environments: list[str] = []
    files: list[str] = []

    def look() -> None:
        for process in Path("/proc").glob("[0-9]*"):
            argument_lists.append(read(process / "cmdline"))
            environments.append(read(process / "environ"))
        files.extend(read(path) for path in tmp_path.rglob("*"))

    server.on_request = look
    lines: list[str] = []

    fetched = fetch(server, tmp_path, lines, TOKEN)

    # It was looked at in time: the address was seen, and the token where it belongs.
    assert any(server.url(NAME) in told for told in argument_lists)
    assert any(holds(told, forms(server)) for told in environments)
    assert any("[core]" in told for told in files)
    assert not any(holds(told, forms(server)) for told in argument_lists + files)
    assert not holds("\n".join(lines) + repr(fetched), forms(server))
    left = [read(path) for path in tmp_path.rglob("*")]
    assert not any(holds(told, forms(server)) for told in left)


def test_it_goes_to_no_other_host(server: GitServer, tmp_path: Path) -> None:
    with git_server() as thief:
        thief.repository("stolen").commit({"main.py": "evil"})
        server.redirect(NAME, thief.url("stolen"))

        with pytest.raises(Rejected) as caught:
            fetch(server, tmp_path, [], TOKEN)

    assert caught.value.code == "git_redirected"
    assert thief.requests == []


@pytest.mark.parametrize("status", [403, 500])
def test_a_server_that_repeats_it_does_not_make_it_known(
    server: GitServer, tmp_path: Path, status: int
) -> None:
    (header,) = authorization(server.url(NAME), TOKEN).values()
    body = f"you said {header}, which is {TOKEN}\n".encode()
    server.answer(NAME, status, body, "text/plain")
    lines: list[str] = []

    with pytest.raises(BackendError) as caught:
        fetch(server, tmp_path, lines, TOKEN)

    told = "\n".join([*lines, str(caught.value), caught.value.detail])
    assert "remote: you said Authorization: Basic ***, which is ***" in lines
    assert not holds(told, forms(server))


def test_a_wrong_one_is_not_repeated_either(server: GitServer, tmp_path: Path) -> None:
    lines: list[str] = []

    with pytest.raises(Rejected) as caught:
        fetch(server, tmp_path, lines, "wrong-token")

    told = "\n".join([*lines, str(caught.value), caught.value.detail])
    assert not holds(told, forms(server, "wrong-token"))


def test_a_request_does_not_show_it(server: GitServer) -> None:
    assert TOKEN not in repr(GitFetch(url=server.url(NAME), token=TOKEN))


def test_a_ref_of_a_private_repository_is_resolved_with_it(server: GitServer) -> None:
    commit = server.repository(NAME).head()

    assert resolve_ref(server.url(NAME), "main", TOKEN, access=access(server)) == commit
    with pytest.raises(Rejected) as caught:
        resolve_ref(server.url(NAME), "main", access=access(server))

    assert caught.value.code == "git_access_denied"


def test_one_with_a_user_of_its_own_is_sent_as_given(server: GitServer) -> None:
    commit = server.repository(NAME).head()
    told = f"deployer:{TOKEN}"

    assert resolve_ref(server.url(NAME), None, told, access=access(server)) == commit
