"""Does fetching leave the whole tree or nothing, whoever stops it, whatever was there?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from buildqueue.backends.git import (
    Fetched,
    GitAccess,
    GitFetch,
    GitLimits,
    fetch_tree,
    resolve_ref,
)
from buildqueue.exceptions import BackendError, Cancelled, Rejected, Unavailable
from tests.support.gitserver import GitServer, git_server
from tests.support.waiting import wait_until

NAME = "team/app"


@pytest.fixture
def server() -> Iterator[GitServer]:
    with git_server() as server:
        yield server


def access(server: GitServer) -> GitAccess:
    return GitAccess(protocols=(server.protocol,), hosts=(server.host,))


def fetch(server: GitServer, destination: Path, **options: Any) -> Fetched:
    given = {key: options.pop(key) for key in ("ref", "commit") if key in options}
    return fetch_tree(
        GitFetch(url=server.url(NAME), **given),
        destination,
        access=access(server),
        limits=options.pop("limits", GitLimits()),
        **{"on_line": lambda line: None, **options},
    )


def resolve(server: GitServer, ref: str | None) -> str:
    return resolve_ref(server.url(NAME), ref, access=access(server))


def read(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found}


def test_it_tells_what_it_fetched(server: GitServer, tmp_path: Path) -> None:
    repo = server.repository(NAME)
    first = repo.commit({"main.py": "print(1)\n", "a/b/c.txt": "c", "empty": ""})
    repo.commit({"main.py": "print(2)\n"}, branch="next")
    lines: list[str] = []

    fetched = fetch(server, tmp_path / "source", on_line=lines.append)

    assert fetched == Fetched(commit=first, ref="main", files=3, bytes=10)
    assert read(tmp_path / "source") == {
        "main.py": "print(1)\n",
        "a/b/c.txt": "c",
        "empty": "",
    }
    assert lines[0] == f"fetching {server.url(NAME)}"
    assert lines[1:] == [f"found commit {first}", "fetched 3 files of 10 bytes"]


def test_a_commit_is_fetched_though_its_branch_went_on(
    server: GitServer, tmp_path: Path
) -> None:
    repo = server.repository(NAME)
    first = repo.commit({"main.py": "1"})
    repo.commit({"main.py": "2"})

    fetched = fetch(server, tmp_path / "source", ref="main", commit=first.upper())
    again = fetch(server, tmp_path / "again", ref=first)

    assert (fetched.commit, fetched.ref) == (first, "main")
    assert (again.commit, again.ref) == (first, "")
    assert read(tmp_path / "source") == read(tmp_path / "again") == {"main.py": "1"}


def test_a_repository_of_longer_hashes_is_fetched(
    server: GitServer, tmp_path: Path
) -> None:
    repo = server.repository("long")
    config = repo.folder / "config"
    repo.git("init", "-q", "--bare", "--object-format=sha256", str(repo.folder / "new"))
    for path in repo.folder.iterdir():
        if path.name in {"config", "HEAD"}:
            path.write_bytes((repo.folder / "new" / path.name).read_bytes())
    assert "sha256" in config.read_text()
    tree = repo.tree([("100644", "main.py", repo.blob("long"))])
    commit = repo.commit_tree(tree, branch=repo.git("symbolic-ref", "--short", "HEAD"))

    for given in ({}, {"commit": commit}):
        fetched = fetch_tree(
            GitFetch(url=server.url("long"), **given),
            tmp_path / "source",
            access=access(server),
            limits=GitLimits(),
            on_line=lambda line: None,
        )
        assert fetched.commit == commit
        assert read(tmp_path / "source") == {"main.py": "long"}


def test_modes_are_those_of_the_commit_and_not_of_the_umask(
    server: GitServer, tmp_path: Path
) -> None:
    server.repository(NAME).commit(
        {"run.sh": "#!/bin/sh\n", "plain.txt": "x"}, programs=["run.sh"]
    )

    fetch(server, tmp_path / "source")

    modes = {p.name: p.stat().st_mode & 0o7777 for p in (tmp_path / "source").iterdir()}
    assert modes == {"run.sh": 0o755, "plain.txt": 0o644}


def test_no_attribute_of_the_repository_changes_a_byte(
    server: GitServer, tmp_path: Path
) -> None:
    files = {
        ".gitattributes": "* text eol=crlf ident filter=lfs working-tree-encoding=utf-16"
        "\nleft-out.txt export-ignore\nhash.txt export-subst\n",
        "main.py": "one\ntwo $Id$\n",
        "left-out.txt": "kept",
        "hash.txt": "$Format:%H$",
    }
    server.repository(NAME).commit(files)

    fetch(server, tmp_path / "source")

    assert read(tmp_path / "source") == files


def test_what_is_fetched_replaces_what_was_there(
    server: GitServer, tmp_path: Path
) -> None:
    repo = server.repository(NAME)
    repo.commit({"old.py": "1"})
    fetch(server, tmp_path / "source")
    repo.commit({"old.py": None, "new.py": "2"})

    fetch(server, tmp_path / "source")

    assert read(tmp_path / "source") == {"new.py": "2"}


def test_a_failure_leaves_what_was_there(server: GitServer, tmp_path: Path) -> None:
    server.repository(NAME).commit({"main.py": "1"})
    fetch(server, tmp_path / "source")
    server.answer(NAME, 503)

    with pytest.raises(Unavailable):
        fetch(server, tmp_path / "source")

    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    assert read(tmp_path / "source") == {"main.py": "1"}


def test_whoever_asked_to_stop_is_heard_while_the_server_is_silent(
    server: GitServer, tmp_path: Path
) -> None:
    server.repository(NAME).commit({"main.py": "1"})
    server.hang(NAME)

    with pytest.raises(Cancelled):
        fetch(server, tmp_path / "source", cancelled=lambda: bool(server.requests))

    assert list(tmp_path.iterdir()) == []


def test_it_ends_within_its_time_after_the_server_fell_silent_half_way(
    server: GitServer, tmp_path: Path
) -> None:
    server.repository(NAME).commit({"main.py": "1"})
    server.on_request = lambda: len(server.requests) > 2 and server.hang(NAME)

    with pytest.raises(Unavailable) as caught:
        fetch(server, tmp_path / "source", limits=GitLimits(timeout_seconds=3.0))

    assert caught.value.code == "git_timed_out"
    assert list(tmp_path.iterdir()) == []


FETCH = """
import sys
from pathlib import Path
from buildqueue.backends.git import GitAccess, GitFetch, GitLimits, fetch_tree
url, host, destination = sys.argv[1:]
fetch_tree(
    GitFetch(url=url), Path(destination), limits=GitLimits(), on_line=print,
    access=GitAccess(protocols=("http",), hosts=(host,)),
)
"""


def test_the_next_call_removes_what_a_killed_one_left(
    server: GitServer, tmp_path: Path
) -> None:
    server.repository(NAME).commit({"main.py": "1"})
    server.hang(NAME)
    argv = [sys.executable, "-c", FETCH, server.url(NAME), server.host]
    killed = subprocess.Popen([*argv, tmp_path / "source"], stdout=subprocess.DEVNULL)
    wait_until(lambda: server.requests, message="it asks nothing")
    orphans = psutil.Process(killed.pid).children(recursive=True)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    for orphan in orphans:  # the worker's guardian does this
        orphan.kill()

    assert [path.name for path in tmp_path.iterdir()] == [".source.fetching"]
    server.heal(NAME)
    fetch(server, tmp_path / "source")

    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_host_without_git_says_so(
    server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.repository(NAME).commit({"main.py": "1"})
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    with pytest.raises(Unavailable) as caught:
        fetch(server, tmp_path / "source")

    assert caught.value.code == "git_missing"
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_nothing_of_the_hosts_configuration_gets_in(
    server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.repository(NAME).commit({"main.py": "1"})
    told = tmp_path / "told"
    told.write_text('[url "http://127.0.0.1:1/"]\n\tinsteadOf = http://\n')
    (tmp_path / ".gitconfig").write_text(told.read_text())
    for name, value in {
        "HOME": str(tmp_path),
        "GIT_CONFIG_GLOBAL": str(told),
        "GIT_CONFIG_SYSTEM": str(told),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "url.http://127.0.0.1:1/.insteadOf",
        "GIT_CONFIG_VALUE_0": "http://",
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_TRACE_CURL": str(tmp_path / "trace"),
        "GIT_EXEC_PATH": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)

    fetch(server, tmp_path / "work")

    assert read(tmp_path / "work") == {"main.py": "1"}
    assert not (tmp_path / "trace").exists()


def test_the_hosts_proxy_is_used(
    server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://{server.host}")

    with pytest.raises(BackendError):
        fetch_tree(
            GitFetch(url="http://git.example/a.git"),
            tmp_path / "source",
            access=GitAccess(protocols=("http",), hosts=("git.example",)),
            limits=GitLimits(),
            on_line=lambda line: None,
        )

    assert server.requests[0].path.startswith("http://git.example/a.git/")


def test_a_ref_is_resolved_to_the_commit_behind_it(server: GitServer) -> None:
    repo = server.repository(NAME)
    first = repo.commit({"main.py": "1"})
    repo.tag("light")
    repo.tag("heavy", message="an object of its own")
    repo.tag("twin")
    second = repo.commit({"main.py": "2"}, branch="twin")
    third = repo.commit({"main.py": "3"})
    # Ends like the wanted one, and comes before it.
    repo.git("update-ref", "refs/heads/a/refs/heads/twin", third)

    assert resolve(server, None) == resolve(server, "main") == third
    assert resolve(server, "light") == resolve(server, "heavy") == first
    assert resolve(server, "twin") == resolve(server, "refs/heads/twin") == second
    assert resolve(server, "refs/tags/twin") == first
    assert resolve(server, first) == first


def test_a_ref_that_is_not_there_is_not_resolved(server: GitServer) -> None:
    server.repository(NAME).commit({"main.py": "1"})

    with pytest.raises(Rejected) as caught:
        resolve(server, "mai")

    assert caught.value.code == "git_ref_not_found"


def test_resolving_sees_a_forced_push(server: GitServer) -> None:
    repo = server.repository(NAME)
    before = repo.commit({"main.py": "1"})
    assert resolve(server, "main") == before

    after = repo.force_push({"main.py": "2"})

    assert resolve(server, "main") == after != before


def test_https_is_the_way_without_any_setting_once_the_certificate_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_SSL_CAINFO", raising=False)
    with git_server(tls=True) as server:
        commit = server.repository(NAME).commit({"main.py": "1"})
        by_https = GitAccess(hosts=(server.host,))

        with pytest.raises(Rejected) as caught:
            resolve_ref(server.url(NAME), None, access=by_https)
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.ca_file))
        found = resolve_ref(server.url(NAME), None, access=by_https)

    assert caught.value.code == "git_certificate_refused"
    assert found == commit


def test_the_umask_of_the_worker_does_not_open_what_is_half_fetched(
    server: GitServer, tmp_path: Path
) -> None:
    server.repository(NAME).commit({"main.py": "1"})
    seen: set[int] = set()

    def look() -> None:
        seen.update(p.stat().st_mode & 0o777 for p in tmp_path.glob(".*.fetching"))

    server.on_request = look
    before = os.umask(0)
    try:
        fetch(server, tmp_path / "source")
    finally:
        os.umask(before)

    assert seen == {0o700}
