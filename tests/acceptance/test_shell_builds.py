"""Does an agent run that was built from a shell, and is no secret ever in a command line?

The real command, a real worker, the real local runtime, a real repository with a token.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from buildqueue.models import Agent, BuildJob
from tests.factories import make_user
from tests.support.gitserver import git_server
from tests.support.processes import ROOT, Workers, command, environment

from .hosting import Host, ask, host_in, program

SECRETS = ("xyzzy-plugh-file", "xyzzy-plugh-shell", "xyzzy-plugh-token")
FILE, SHELL, TOKEN = SECRETS


@pytest.fixture
def here(workers: Workers, tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "host").mkdir()
    with host_in(workers, tmp_path / "host") as made:
        make_user("anna")
        yield made


def shell(
    *arguments: str, sent: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command as somebody at a shell of this host would."""
    known = {"DATA_DIR", "GIT_PROTOCOLS", "GIT_HOSTS"}
    given = {k: v for k, v in django_settings.BUILDQUEUE.items() if k in known}
    return subprocess.run(
        command("buildqueue", *arguments),
        input=sent,
        cwd=ROOT,
        env=environment(BUILDQUEUE=json.loads(json.dumps(given, default=str)))
        | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@contextmanager
def command_lines() -> Iterator[set[bytes]]:
    """Gather all that stands in the command lines of the machine meanwhile."""
    seen: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(file.read_bytes())
                except OSError:  # it has just ended
                    continue

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def test_an_agent_is_built_with_secrets_that_stand_in_no_command_line(
    here: Host, tmp_path: Path
) -> None:
    here.worker().wait_ready()
    file = tmp_path / "my.env"
    file.write_text(f"FROM_FILE={FILE}\n")
    folder = tmp_path / "source"
    folder.mkdir()
    telling = "print('file', os.environ['FROM_FILE'], flush=True)"
    (folder / "main.py").write_text(program(before=telling))

    with command_lines() as seen:
        done = shell(
            *("agent", "upload", "echo", str(folder), "--owner", "anna", "--wait"),
            *("--env-file", str(file), "--env", "FROM_SHELL"),
            FROM_SHELL=SHELL,
        )
    printed = shell("agent", "logs", "anna/echo")

    assert done.returncode == 0, done.stderr
    told = ask(Agent.objects.get())
    assert told["env"]["FROM_FILE"] == FILE
    assert told["env"]["FROM_SHELL"] == SHELL
    assert f"job {BuildJob.objects.get().pk} is done: version 1.0.0" in done.stdout
    assert "file ***" in printed.stdout, printed.stderr
    assert any(b"agent\0upload\0echo" in line for line in seen)
    everything = b"".join(seen) + (done.stdout + done.stderr + printed.stdout).encode()
    assert not [secret for secret in SECRETS if secret.encode() in everything]


def test_a_private_repository_is_cloned_and_a_bad_commit_tells_why(
    here: Host, settings: Any
) -> None:
    with git_server() as server:
        allowed = {
            name: server.settings[name] for name in ("GIT_PROTOCOLS", "GIT_HOSTS")
        }
        settings.BUILDQUEUE = {**settings.BUILDQUEUE, **allowed}
        here.worker(**{name.lower(): value for name, value in allowed.items()})
        repository = server.repository("team/app")
        repository.commit({"main.py": program("1.0.0")})
        server.require_token(TOKEN)
        git = ("--git", server.url("team/app"), "--token-stdin", "--wait")

        with command_lines() as seen:
            cloned = shell(
                "agent", "clone", "echo", "--owner", "anna", *git, sent=TOKEN
            )
            repository.commit({"main.py": "raise SystemExit('not today')\n"})
            updated = shell("agent", "update", "echo", *git, "--json", sent=TOKEN)

    assert cloned.returncode == 0, cloned.stderr
    assert ask(Agent.objects.get())["version"] == "1.0.0"
    document = json.loads(updated.stdout)
    [end] = document["jobs"]
    assert (updated.returncode, document["status"]) == (1, "failed")
    assert end["error_code"] == "start_failed"
    assert end["hint"] in updated.stderr
    everything = b"".join(seen) + (cloned.stdout + cloned.stderr).encode()
    assert TOKEN.encode() not in everything + updated.stdout.encode()
