"""Does every odd repository and every server in trouble end with a code of its own?

One table. Whatever the end, nothing lies beside the destination, no process lives, and
nothing is written anywhere else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from buildqueue.backends.git import GitAccess, GitFetch, GitLimits, fetch_tree
from buildqueue.exceptions import BackendError, Rejected, Unavailable
from tests.support.gitrepository import FILE, FOLDER, Repository
from tests.support.gitserver import GitServer, dead_port, git_server
from tests.support.waiting import wait_until

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
HTML = b"<!doctype html>\n<html>\n<p>Welcome!</p>\n</html>\n"
NOWHERE = "0" * 39 + "1"


@dataclass
class Place:
    """What a situation is made from: a server, its own repository, and a host apart."""

    server: GitServer
    elsewhere: GitServer
    name: str
    folder: Path
    deserted: str  # host and port where nobody listens

    @property
    def repo(self) -> Repository:
        return self.server.repository(self.name)

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def noise(self, size: int) -> bytes:
        return random.Random(size).randbytes(size)

    def of_tree(self, *entries: tuple[str, bytes | str, str]) -> dict[str, str]:
        self.repo.commit_tree(self.repo.tree(entries))
        return {}

    def link(self, target: str) -> dict[str, str]:
        self.repo.commit({"folder/main.py": "1"}, links={"link": target})
        return {}


Prepare = Callable[[Place], Mapping[str, str]]


@dataclass
class Situation:
    """What is there, and how it ends: with a code, or with these files."""

    name: str
    prepare: Prepare  # returns what the request says beside the usual URL
    code: str = ""
    kind: type[BackendError] = Rejected
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    limits: dict[str, Any] = field(default_factory=dict)


def deep(place: Place) -> dict[str, str]:
    tree = place.repo.tree([(FILE, "x", place.repo.blob("x"))])
    for _ in range(60):
        tree = place.repo.tree([(FOLDER, "d", tree)])
    place.repo.commit_tree(tree)
    return {}


def bomb(place: Place) -> dict[str, str]:
    """Ten trees that name ten billion files."""
    tree = place.repo.tree([(FILE, "x", place.repo.blob("x"))])
    for _ in range(10):
        tree = place.repo.tree([(FOLDER, f"d{i}", tree) for i in range(10)])
    place.repo.commit_tree(tree)
    return {}


def odd_name(name: bytes | str) -> Prepare:
    return lambda place: place.of_tree((FILE, name, place.repo.blob("evil")))


def url(text: str) -> Prepare:
    return lambda place: {"url": text.replace("HOST", place.server.host)}


def commit(**files: str | bytes) -> Prepare:
    def prepare(place: Place) -> dict[str, str]:
        place.repo.commit(files)
        return {}

    return prepare


def faulty(act: Callable[[Place], object]) -> Prepare:
    def prepare(place: Place) -> dict[str, str]:
        place.repo.commit({"main.py": "1"})
        act(place)
        return {}

    return prepare


def gone(place: Place) -> dict[str, str]:
    old = place.repo.commit({"main.py": "1"})
    place.repo.force_push({"main.py": "2"})
    return {"commit": old}


def unadvertised(place: Place) -> dict[str, str]:
    """A commit that this server gives out only with what came after it."""
    old = place.repo.commit({"main.py": "1"})
    place.repo.commit({"main.py": "2"})
    place.server.old = True
    return {"commit": old}


def unadvertised_and_gone(place: Place) -> dict[str, str]:
    unadvertised(place)
    return {"commit": NOWHERE}


def same_name(place: Place) -> dict[str, str]:
    place.repo.tag("twin", place.repo.commit({"main.py": "tag"}))
    place.repo.commit({"main.py": "branch"}, branch="twin")
    return {}


def annotated(place: Place) -> dict[str, str]:
    place.repo.commit({"main.py": "1"})
    place.repo.tag("v1", message="the first")
    place.repo.commit({"main.py": "2"})
    return {"ref": "v1"}


def leading_dash(place: Place) -> dict[str, str]:
    made = place.repo.commit({"main.py": "1"})
    place.repo.branch("-x", made)
    return {"ref": "-x"}


def upload_pack(place: Place) -> dict[str, str]:
    return {"url": f"--upload-pack=touch {place.folder / 'owned'}; false"}


def extern(place: Place) -> dict[str, str]:
    return {"url": f"ext::touch {place.folder / 'owned'}"}


def extern_plain(place: Place) -> dict[str, str]:
    return {"url": "ext::owned"}


def tag_of_a_file(place: Place) -> dict[str, str]:
    place.repo.commit({"main.py": "1"})
    place.repo.git("update-ref", "refs/tags/file", place.repo.blob("no commit"))
    return {"ref": "file"}


def submodule(place: Place) -> dict[str, str]:
    told = f'[submodule "lib"]\n\tpath = lib\n\turl = {place.elsewhere.url("lib")}\n'
    place.repo.commit(
        {"main.py": "1", ".gitmodules": told}, submodules={"lib": NOWHERE}
    )
    return {}


def evil_submodule(place: Place) -> dict[str, str]:
    told = '[submodule "lib"]\n\tpath = lib\n\turl = --upload-pack=id\n'
    place.repo.commit({".gitmodules": told, "main.py": "1"})
    return {}


def private(token: str | None) -> Prepare:
    def prepare(place: Place) -> dict[str, str]:
        place.repo.commit({"main.py": "private"})
        place.server.require_token("right-token")
        return {"token": token} if token else {}

    return prepare


def duplicates(place: Place) -> dict[str, str]:
    blob = place.repo.blob("x")
    return place.of_tree((FILE, "a", blob), (FILE, "a", blob))


def two_spellings(place: Place) -> dict[str, str]:
    blob = place.repo.blob("x")
    return place.of_tree((FILE, "A", blob), (FILE, "a", blob))


def links_within(place: Place) -> dict[str, str]:
    place.repo.commit(
        {"folder/main.py": "1"},
        links={"a": "folder/main.py", "b": "a", "folder/c": "../folder/../a"},
    )
    return {}


def dead(place: Place) -> dict[str, str]:
    return {"url": f"http://{place.deserted}/a.git"}


SITUATIONS = [
    # Addresses and names.
    Situation("an --upload-pack address", upload_pack, "git_url_invalid"),
    Situation("a control character", url("http://HOST/a\n.git"), "git_url_invalid"),
    Situation("an ext:: address", extern_plain, "git_protocol_not_allowed"),
    Situation("an ext:: command", extern, "git_url_invalid"),
    Situation("a file: address", url("file:///etc"), "git_protocol_not_allowed"),
    Situation("ssh", url("git@github.com:a/b"), "git_protocol_not_allowed"),
    Situation("credentials", url("http://u:p@HOST/a"), "git_credentials_in_url"),
    Situation("another host", url("http://git.invalid/a"), "git_host_not_allowed"),
    Situation("a ref with a newline", lambda _: {"ref": "a\nb"}, "git_ref_invalid"),
    Situation("a branch named -x", leading_dash, "git_ref_invalid"),
    Situation("a short hash", lambda _: {"commit": "abc1234"}, "git_commit_short"),
    Situation("no hash", lambda _: {"commit": "main"}, "git_commit_invalid"),
    Situation("a token of two lines", lambda _: {"token": "a\nb"}, "git_token_invalid"),
    # What is not there.
    Situation("an empty repository", lambda p: p.repo and {}, "git_repository_empty"),
    Situation("no repository", lambda _: {}, "git_repository_not_found"),
    Situation(
        "a missing branch",
        lambda p: commit(a="1")(p) or {"ref": "missing"},
        "git_ref_not_found",
    ),
    Situation(
        "a missing commit",
        lambda p: commit(a="1")(p) or {"commit": NOWHERE},
        "git_commit_not_found",
    ),
    Situation("a commit that was forced away", gone, "git_commit_not_found"),
    Situation("an old server", unadvertised, files={"main.py": "1"}),
    Situation(
        "an old server without it", unadvertised_and_gone, "git_commit_not_found"
    ),
    Situation("a tag of a file", tag_of_a_file, "git_not_a_commit"),
    # Servers.
    Situation("a dead host", dead, "git_unreachable", Unavailable),
    Situation(
        "a name that is no host",
        url("http://git.example.invalid/a.git"),
        "git_unreachable",
        Unavailable,
    ),
    Situation(
        "a hanging host",
        faulty(lambda p: p.server.hang(p.name)),
        "git_timed_out",
        Unavailable,
        limits={"timeout_seconds": 1.0},
    ),
    Situation(
        "a slow host",
        faulty(lambda p: p.server.trickle(p.name)),
        "git_timed_out",
        Unavailable,
        limits={"low_speed_seconds": 1},
    ),
    Situation(
        "a server in trouble",
        faulty(lambda p: p.server.answer(p.name, 500)),
        "git_unreachable",
        Unavailable,
    ),
    Situation(
        "a server that is overrun",
        faulty(lambda p: p.server.answer(p.name, 429)),
        "git_unreachable",
        Unavailable,
    ),
    Situation(
        "a redirect to another host",
        faulty(lambda p: p.server.redirect(p.name, p.elsewhere.url("stolen"))),
        "git_redirected",
    ),
    Situation(
        "a web page",
        faulty(lambda p: p.server.answer(p.name, 200, HTML)),
        "git_answer_invalid",
    ),
    Situation(
        "garbage",
        faulty(lambda p: p.server.answer(p.name, 200, b"garbage", ADVERTISEMENT)),
        "git_answer_invalid",
    ),
    Situation(
        "forbidden",
        faulty(lambda p: p.server.answer(p.name, 403)),
        "git_access_denied",
    ),
    Situation("no token", private(None), "git_access_denied"),
    Situation("a wrong token", private("wrong-token"), "git_access_denied"),
    Situation("a token", private("right-token"), files={"main.py": "private"}),
    # What is too much.
    Situation(
        "a huge file",
        lambda p: p.repo.commit({"huge": p.noise(3_000_000)}) and {},
        "git_too_large",
        limits={"max_bytes": 1_000_000},
    ),
    Situation(
        "a file that is huge when unpacked",
        commit(huge=bytes(20_000_000)),
        "git_too_large",
        limits={"max_bytes_out": 10_000_000},
    ),
    Situation(
        "too many files",
        commit(**{f"f{n}": "" for n in range(21)}),
        "git_too_many_files",
        limits={"max_entries": 20},
    ),
    Situation("a bomb of trees", bomb, "git_too_many_files"),
    Situation("a bottomless tree", deep, "git_name_refused"),
    # What is in the tree.
    Situation("a .git folder", odd_name(".git"), "git_tree_refused"),
    Situation("a .GIT folder", odd_name(".GIT"), "git_tree_refused"),
    Situation("a way up", odd_name(".."), "git_tree_refused"),
    Situation("a path as a name", odd_name("../owned"), "git_tree_refused"),
    Situation("a name that is there twice", duplicates, "git_tree_refused"),
    Situation("a name in two spellings", two_spellings, "git_name_refused"),
    Situation("a newline in a name", odd_name("a\nb"), "git_name_refused"),
    Situation("a name that is no text", odd_name(b"a\xff"), "git_name_refused"),
    Situation("a name that is too long", odd_name("x" * 300), "git_name_refused"),
    Situation("a backslash", odd_name("..\\owned"), "git_name_refused"),
    Situation("no file at all", lambda p: p.of_tree(), "git_tree_empty"),
    Situation("a link out", lambda p: p.link("../../owned"), "git_link_refused"),
    Situation("an absolute link", lambda p: p.link("/etc/passwd"), "git_link_refused"),
    Situation("a link to a folder", lambda p: p.link("folder"), "git_link_refused"),
    Situation("a link to nothing", lambda p: p.link("nothing"), "git_link_refused"),
    Situation("a link to itself", lambda p: p.link("link"), "git_link_refused"),
    Situation("a submodule that is an attack", evil_submodule, "git_tree_refused"),
    Situation(
        "links within",
        links_within,
        files=dict.fromkeys(["a", "b", "folder/c", "folder/main.py"], "1"),
    ),
    Situation(
        "a submodule",
        submodule,
        files={"main.py": "1", ".gitmodules": "..."},
        notes=("note: lib is a submodule, and not fetched",),
    ),
    Situation(
        "a pointer of LFS",
        commit(model=LFS, **{"main.py": "1"}),
        files={"main.py": "1", "model": LFS},
        notes=(
            "note: model is a pointer of Git LFS, and the file itself is not fetched",
        ),
    ),
    # Names that mean two things.
    Situation(
        "branch and tag, bare",
        lambda p: same_name(p) or {"ref": "twin"},
        files={"main.py": "branch"},
    ),
    Situation(
        "branch and tag, the tag",
        lambda p: same_name(p) or {"ref": "refs/tags/twin"},
        files={"main.py": "tag"},
    ),
    Situation("an annotated tag", annotated, files={"main.py": "1"}),
    Situation("the default branch", commit(a="1"), files={"a": "1"}),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[GitServer, GitServer]]:
    with git_server() as server, git_server() as elsewhere:
        yield server, elsewhere


@pytest.fixture
def place(
    servers: tuple[GitServer, GitServer], tmp_path: Path, request: Any
) -> Iterator[Place]:
    server, elsewhere = servers
    number = SITUATIONS.index(request.node.callspec.params["situation"])
    deserted = f"127.0.0.1:{dead_port()}"
    yield Place(server, elsewhere, f"team/app{number}", tmp_path, deserted)
    server.require_token(None)
    server.old = False


def living(*words: str) -> list[str]:
    """Return the processes that say one of the words in arguments or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            told = " ".join([*process.cmdline(), *process.environ().values()])
            if any(word in told for word in words) and process.status() != "zombie":
                found.append(told)
        except psutil.Error:
            continue  # it has ended meanwhile
    return found


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_it_ends_as_the_table_says_and_leaves_nothing(
    situation: Situation, place: Place
) -> None:
    work = place.folder / "work"
    work.mkdir()
    told = situation.prepare(place)
    asked_elsewhere = len(place.elsewhere.requests)
    request = GitFetch(**{"url": place.url, **told})
    hosts = (place.server.host, place.deserted, "git.example.invalid")
    lines: list[str] = []

    ended: BackendError | None = None
    try:
        fetch_tree(
            request,
            work / "source",
            access=GitAccess(protocols=("https", "http"), hosts=hosts),
            limits=GitLimits(**{"timeout_seconds": 60.0, **situation.limits}),
            on_line=lines.append,
        )
    except BackendError as error:
        ended = error

    if situation.code:
        assert ended is not None, f"it was fetched: {lines}"
        assert (ended.code, type(ended)) == (situation.code, situation.kind), ended
        assert list(work.iterdir()) == []
    else:
        assert ended is None, ended
        assert [path.name for path in work.iterdir()] == ["source"]
        found = {
            path.relative_to(work / "source").as_posix(): path.read_text()
            for path in (work / "source").rglob("*")
            if not path.is_dir() and not path.is_symlink()
        }
        expected = situation.files
        assert set(found) == set(expected)
        assert {n: t for n, t in found.items() if expected[n] != "..."} == {
            n: t for n, t in expected.items() if t != "..."
        }
    assert set(situation.notes) <= set(lines)
    assert [path.name for path in place.folder.iterdir()] == ["work"]
    assert len(place.elsewhere.requests) == asked_elsewhere
    wait_until(lambda: not living(str(work), place.url), message="git lives on")
