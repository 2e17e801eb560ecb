"""Who brings secrets, and to whom? A person, to a host with a worker and a git server.

The secrets are new each time, and whatever the person is answered is kept.
"""

from __future__ import annotations

import json
import os
import secrets as random
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, override_settings

from buildqueue import tokens
from buildqueue.models import Agent, BuildJob, McpConnector
from tests.factories import make_user
from tests.support.commands import run
from tests.support.gitserver import GitServer, dead_port, git_server
from tests.support.jobs import wait_for
from tests.support.processes import ROOT, RunningWorker, command, environment

from .hosting import Host

PROVIDED = "BUILDQUEUE_TEST_PROVIDED"
OF_AGENT = ("plain", "lines", "short", "odd")
JOB_SECONDS = 240.0


def provided(target: Agent | McpConnector) -> Mapping[str, str]:
    """Return what the host adds to each environment."""
    return {"MY_PROVIDED": os.environ[PROVIDED]}


def planted() -> dict[str, str]:
    """Return secrets of which nobody has ever seen one."""
    lines = "\n".join(random.token_hex(32) for _ in range(5))
    return {
        "plain": f"plain-{random.token_hex(16)}",
        "lines": f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n",
        "short": f"{random.token_hex(3)}!q",
        "odd": f"p@ss'w\"rd/+ =&%é\\{random.token_hex(8)}\tß  {{end}}",
        "changed": f"changed-{random.token_hex(16)}",
        "patched": f"patched-{random.token_hex(16)}",
        "token": f"ghp_{random.token_hex(12)}/+%==",
        "owned": f"own_{random.token_hex(12)}",
        "server": f'server {random.token_hex(16)}\t  "it\'s"',
        "provided": f"given-{random.token_hex(16)}",
    }


@dataclass(slots=True)
class Person:
    """Somebody with a client of the API and a shell; what each said is kept."""

    user: AbstractUser
    client: Client = field(init=False)
    heard: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        _, token = tokens.make(self.user, "test")
        headers = {"Authorization": f"Bearer {token}"}
        self.client = Client(headers=headers, raise_request_exception=False)

    def get(self, address: str) -> Any:
        """Read something."""
        answer = self._kept(f"GET {address}", self.client.get(address))
        assert answer.status_code == 200, (address, answer.content)
        return answer.json()

    def ask(self, verb: str, address: str, body: Any = None) -> Any:
        """Send a document, or a text that is none."""
        told = body if isinstance(body, str) else json.dumps(body or {})
        answer = self.client.generic(verb, address, told, "application/json")
        return self._kept(f"{verb} {address}", answer)

    def send(self, address: str, source: Any, **fields: Any) -> Any:
        """Post an archive as a form."""
        file = SimpleUploadedFile("source.zip", source.read())
        answer = self.client.post(address, {"source": file, **fields})
        return self._kept(f"POST {address}", answer)

    def type(self, *words: str, stdin: str = "", **variables: str) -> Any:
        """Run the command in a process of its own, and return its document."""
        settings = json.loads(json.dumps(django_settings.BUILDQUEUE, default=str))
        ran = subprocess.run(
            command("buildqueue", *words, "--json"),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment(BUILDQUEUE=settings) | variables,
            check=False,
        )
        self.heard.append((" ".join(words), (ran.stdout + ran.stderr).encode()))
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def hear(self, *words: str) -> None:
        """Have the command answer, in this process: it is given no secret."""
        self.heard.append((" ".join(words), run(*words).encode()))

    def _kept(self, what: str, answer: Any) -> Any:
        told = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self.heard.append((what, told.encode() + b"\n\n" + answer.content))
        return answer


@dataclass(slots=True)
class Scene:
    """A host, a git server, and a person with secrets."""

    here: Host
    git: GitServer
    anna: Person
    values: dict[str, str]

    def worker(self) -> RunningWorker:
        """Start a worker with the settings of now."""
        given = json.loads(json.dumps(django_settings.BUILDQUEUE, default=str))
        wanted = {*_settings(self.git), "SECRET_KEYS"} & set(given)
        return self.here.worker(**{name.lower(): given[name] for name in wanted})

    def env(self, *names: str) -> dict[str, str]:
        """Return variables that hold these secrets."""
        return {f"MY_{name.upper()}": self.values[name] for name in names}

    def upload(self, name: str, source: Any, *names: str) -> dict[str, Any]:
        """Ask for an agent with secrets."""
        answer = self.anna.send(
            "/api/agents/upload-and-deploy",
            source,
            name=name,
            env=json.dumps(self.env(*(names or OF_AGENT))),
        )
        return self.queued(answer)

    def clone(self, name: str, repository: str, **given: Any) -> dict[str, Any]:
        """Ask for an agent of a repository."""
        body = {"name": name, "url": self.git.url(repository), **given}
        return self.queued(self.anna.ask("POST", "/api/agents/clone", body))

    def queued(self, answer: Any) -> dict[str, Any]:
        """Return what an answer says is queued."""
        assert answer.status_code == 202, answer.content
        told: dict[str, Any] = answer.json()
        return told

    def ended(self, told: dict[str, Any], status: str = "done") -> BuildJob:
        """Wait for the end of what is queued."""
        job = wait_for(BuildJob(pk=told["job_id"]), timeout=JOB_SECONDS)
        assert job.status == status, (job.kind, job.error_code, job.error_msg)
        return job

    def agent(self, name: str) -> Agent:
        """Return the agent of that name."""
        return Agent.objects.get(name=name)

    def says(self, name: str) -> dict[str, str]:
        """Return the environment that the agent answers with."""
        with urllib.request.urlopen(str(self.agent(name).url), timeout=30) as answer:
            found: dict[str, str] = json.load(answer)
            return found


@contextmanager
def scene_on(here: Host) -> Iterator[Scene]:
    """Set the scene; no worker is there yet."""
    values = planted()
    with pytest.MonkeyPatch.context() as patched, git_server() as git:
        patched.setenv(PROVIDED, values["provided"])
        given = {**django_settings.BUILDQUEUE, **_settings(git)}
        with override_settings(BUILDQUEUE=given):
            yield Scene(here, git, Person(make_user("anna")), values)


@contextmanager
def keys(*given: str) -> Iterator[None]:
    """Have these keys for secrets, newest first."""
    changed = {**django_settings.BUILDQUEUE, "SECRET_KEYS": list(given)}
    with override_settings(BUILDQUEUE=changed):
        yield


def _settings(git: GitServer) -> dict[str, Any]:
    nobody = {"webhook": f"http://127.0.0.1:{dead_port()}/", "secret": "A" * 32}
    return {
        **git.settings,
        "ENV_PROVIDERS": [f"{__name__}.provided"],
        "HEALTH_TRIES": 6,
        "NOTICES": [{"name": "ops", "events": ["*"], **nobody}],
    }
