"""Is any secret to be found anywhere but where it is used?

A real worker, its runtime and a real git server do all that brings secrets along, with
programs that tell whatever they know. Then everything that is kept or answered is
searched for the secrets, in each of their forms; that the search finds them is shown by
planting them there.
"""

from __future__ import annotations

import json
import os
import secrets as random
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib import admin
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, override_settings

from buildqueue import tokens
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    BuildJob,
    JobEvent,
    McpConnector,
    Notice,
    OwnerSecret,
)
from tests.factories import make_user
from tests.support import blabbing, dumps
from tests.support.gitserver import GitServer, dead_port, git_server
from tests.support.jobs import wait_for
from tests.support.processes import command, environment
from tests.support.waiting import wait_until

from .hosting import Host

PROVIDED = "BUILDQUEUE_TEST_PROVIDED"
WEBHOOK = "whsec_" + "A" * 32
OF_AGENT = ("plain", "lines", "short", "odd")


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
        "server": f"server {random.token_hex(16)}\t  \"it's\"",
        "provided": f"given-{random.token_hex(16)}",
    }


@dataclass(slots=True)
class Person:
    """Somebody with a client of the API and a shell; what each said is kept."""

    user: AbstractUser
    settings: Mapping[str, Any]
    client: Client = field(init=False)
    heard: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        _, token = tokens.make(self.user, "test")
        headers = {"Authorization": f"Bearer {token}"}
        self.client = Client(headers=headers, raise_request_exception=False)

    def get(self, address: str) -> Any:
        return self._kept(f"GET {address}", self.client.get(address))

    def ask(self, verb: str, address: str, body: Any = None) -> Any:
        told = json.dumps(body or {})
        answer = self.client.generic(verb, address, told, "application/json")
        return self._kept(f"{verb} {address}", answer)

    def send(self, address: str, source: Any, **fields: Any) -> Any:
        """Post an archive as a form."""
        file = SimpleUploadedFile("source.zip", source.read())
        answer = self.client.post(address, {"source": file, **fields})
        return self._kept(f"POST {address}", answer)

    def type(
        self, *words: str, stdin: str = "", status: int = 0, **variables: str
    ) -> Any:
        """Run the command in a process of its own, and return its document."""
        ran = subprocess.run(
            command("buildqueue", *words, "--json"),
            input=stdin,
            capture_output=True,
            text=True,
            env=environment(BUILDQUEUE=self.settings) | variables,
        )
        self.heard.append((" ".join(words), (ran.stdout + ran.stderr).encode()))
        assert ran.returncode == status, ran.stderr
        return json.loads(ran.stdout) if ran.stdout else None

    def _kept(self, what: str, answer: Any) -> Any:
        content = b"".join(answer) if answer.streaming else answer.content
        told = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self.heard.append((what, told.encode() + b"\n\n" + content))
        return answer


@dataclass(slots=True)
class Scene:
    """A host with its worker, a git server, and a person with secrets."""

    here: Host
    git: GitServer
    anna: Person
    values: dict[str, str]
    settings: dict[str, Any]

    def env(self, *names: str) -> dict[str, str]:
        return {f"MY_{name.upper()}": self.values[name] for name in names}

    def upload(self, name: str, source: Any, *names: str, status: str = "done") -> Any:
        """Upload an agent with secrets; return the answer once its job has ended."""
        told = self.anna.send(
            "/api/agents/upload-and-deploy",
            source,
            name=name,
            env=json.dumps(self.env(*(names or OF_AGENT))),
        )
        return self.ended(told, status)

    def ended(self, answer: Any, status: str = "done") -> dict[str, Any]:
        """Wait for the end of the job that was queued."""
        told: dict[str, Any] = answer if isinstance(answer, dict) else answer.json()
        assert "job_id" in told, told
        job = wait_for(BuildJob(pk=told["job_id"]), timeout=180)
        assert job.status == status, (job.kind, job.error_code, job.error_msg)
        return told

    def agent(self, name: str) -> Agent:
        return Agent.objects.get(name=name)

    def says(self, name: str) -> dict[str, str]:
        """Return the environment that the agent answers with."""
        with urllib.request.urlopen(str(self.agent(name).url), timeout=30) as answer:
            found: dict[str, str] = json.load(answer)
            return found


@pytest.fixture
def scene(here: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    values = planted()
    monkeypatch.setenv(PROVIDED, values["provided"])
    with git_server() as git:
        settings = {
            **git.settings,
            "LOCAL_ALLOW_UNCONFINED": True,
            "ENV_PROVIDERS": [f"{__name__}.provided"],
            "HEALTH_TRIES": 6,
            "NOTICES": [
                {
                    "name": "ops",
                    "events": ["*"],
                    "webhook": f"http://127.0.0.1:{dead_port()}/",
                    "secret": WEBHOOK,
                }
            ],
        }
        with override_settings(BUILDQUEUE={**django_settings.BUILDQUEUE, **settings}):
            kept = {**django_settings.BUILDQUEUE}
            kept["DATA_DIR"] = str(kept["DATA_DIR"])
            anna = Person(make_user("anna"), kept)
            here.worker(**{name.lower(): value for name, value in settings.items()})
            yield Scene(here, git, anna, values, settings)


# -- the story -------------------------------------------------------------------------


def _lives_of_an_agent(scene: Scene) -> None:
    anna = scene.anna
    scene.upload("blab", blabbing.agent_zip())
    assert scene.env(*OF_AGENT, "provided").items() <= scene.says("blab").items()
    scene.ended(
        anna.type(
            *("agent", "update", "anna/blab", str(_folder(scene))),
            *("--env", "MY_CHANGED", "--env", "MY_SHORT"),
            **scene.env("changed", "short"),
        )
    )
    agent = scene.agent("blab")
    anna.ask("PATCH", f"/api/agents/{agent.pk}/env", scene.env("patched"))
    scene.ended(anna.ask("POST", f"/api/agents/{agent.pk}/restart"))
    assert scene.env("changed", "patched").items() <= scene.says("blab").items()
    scene.ended(anna.ask("POST", f"/api/agents/{agent.pk}/rollback"))
    scene.ended(anna.ask("POST", f"/api/agents/{agent.pk}/scale", {"replicas": 2}))
    assert scene.env(*OF_AGENT).items() <= scene.says("blab").items()


def _folder(scene: Scene) -> Path:
    folder = django_settings.BUILDQUEUE["DATA_DIR"] / "sources-of-anna"
    folder.mkdir()
    for name, content in blabbing.agent().items():
        (folder / name).write_text(content)
    return folder


def _failures_of_agents(scene: Scene) -> None:
    known = [scene.values[name] for name in OF_AGENT]
    for name, source, code in (
        ("builds", blabbing.building_zip(*known), "dependency_failed"),
        ("dies", blabbing.agent_zip("dies"), "start_failed"),
        ("garbled", blabbing.agent_zip("garbled"), "health_timeout"),
    ):
        told = scene.upload(name, source, status="failed")
        assert BuildJob.objects.get(pk=told["job_id"]).error_code == code
    scene.upload("falls", blabbing.agent_zip())
    crashed = AgentDeployment.objects.filter(agent__name="falls", status="crashed")

    def fall() -> bool:
        with suppress(OSError):
            urllib.request.urlopen(f"{scene.agent('falls').url}/fall", timeout=30)
        return crashed.exists()

    wait_until(fall, timeout=180)


def _repositories(scene: Scene) -> None:
    git, anna, values = scene.git, scene.anna, scene.values
    git.repository("anna/private").commit(blabbing.agent())
    given = {"url": git.url("anna/private"), "env": scene.env("plain")}
    git.require_token(values["token"])
    clone = {**given, "name": "by-token", "token": values["token"]}
    scene.ended(anna.ask("POST", "/api/agents/clone", clone))
    scene.ended(
        anna.type(
            *("agent", "clone", "by-shell", "--owner", "anna", "--token-stdin"),
            *("--git", given["url"]),
            stdin=values["token"] + "\n",
        )
    )
    git.require_token(values["owned"])
    anna.ask("PUT", "/api/secrets/GIT", {"value": values["owned"]})
    anna.type("secret", "set", "SHELL", "--owner", "anna", stdin=values["owned"])
    clone = {**given, "name": "by-secret", "secret": "GIT"}
    scene.ended(anna.ask("POST", "/api/agents/clone", clone))
    agent = scene.agent("by-secret")
    watch = {"url": given["url"], "ref": "main", "secret": "GIT"}
    made = anna.ask("POST", f"/api/agents/{agent.pk}/watches", watch).json()
    anna.ask("POST", f"/api/watches/{made['id']}/check")
    # The server tells what it was shown, as it is and as it came.
    shown = "".join(str(each.authorization) for each in git.requests)
    git.answer(
        "anna/private", 403, f"no {values['owned']} {shown}".encode(), "text/plain"
    )
    clone = {**given, "name": "refused", "secret": "GIT"}
    scene.ended(anna.ask("POST", "/api/agents/clone", clone), "failed")
    anna.ask("POST", f"/api/watches/{made['id']}/check")
    wait_until(lambda: not BuildJob.objects.filter(status="in_progress").exists())


def _connectors(scene: Scene) -> None:
    anna, env = scene.anna, scene.env("server", "odd", "lines")

    def send(name: str, manner: blabbing.ServerManner, status: str) -> dict[str, Any]:
        told = anna.send(
            "/api/mcp/connectors/upload",
            blabbing.server_zip(manner),
            name=name,
            env=json.dumps(env),
        )
        return scene.ended(told, status)

    send("server", "well", "done")
    send("dies", "dies", "failed")
    send("refuses", "refuses", "failed")
    made = send("turns", "turns", "done")
    address = f"/api/mcp/connectors/{made['connector_id']}/refresh"
    scene.ended(anna.ask("POST", address), "failed")


def _refusals(scene: Scene) -> None:
    """Bring secrets where they do not belong."""
    anna, values = scene.anna, scene.values
    agent = f"/api/agents/{scene.agent('blab').pk}"
    secret, url = values["plain"], scene.git.url("anna/private")
    at = url.partition("://")[2]
    for verb, address, body in (
        ("PUT", "/api/secrets/X", {"value": [secret]}),
        ("PUT", "/api/secrets/X", {"value": secret, "ref": secret}),
        ("PUT", "/api/secrets/X", {"value": secret + "\0"}),
        ("PATCH", f"{agent}/env", {"A": {"value": secret}}),
        ("PATCH", f"{agent}/env", {"HOST": secret, "1": secret, "A": secret * 9999}),
        ("PUT", f"{agent}/update", {"env": secret}),
        ("PUT", f"{agent}/update", {"env": [secret]}),
        ("POST", "/api/agents/clone", {"name": "x", "url": url, "token": [secret]}),
        ("POST", "/api/agents/clone", {"name": "x", "url": url, "token": f"{secret}\n"}),
        ("POST", "/api/agents/clone", {"name": "x", "url": f"http://me:{secret}@{at}"}),
        ("POST", "/api/agents/clone", {"name": "x", "url": f"{url}?token={secret}"}),
        ("POST", f"{agent}/watches", {"url": f"http://{secret}@{at}", "ref": "main"}),
    ):
        answer = anna.ask(verb, address, body)
        assert 400 <= answer.status_code < 500, (address, answer.content)
    anna.client.generic("PUT", "/api/secrets/X", f'{{"value": {secret}', "application/json")
    told = anna.send("/api/agents/upload-and-deploy", blabbing.agent_zip(), name="x", env=secret)
    assert told.status_code == 400


def _unreadable(scene: Scene) -> None:
    """Put another owner's ciphertext into a row: its key does not read it."""
    agent = scene.agent("by-token")
    build = AgentBuild.objects.get(agent__name="by-secret")
    agent.secrets_env = {"MY_PLAIN": OwnerSecret.objects.first().encrypted_value[:-9]}  # type: ignore[union-attr]
    agent.save()
    told = scene.anna.ask("POST", f"/api/agents/{agent.pk}/restart")
    job = scene.ended(told, "failed")["job_id"]
    assert BuildJob.objects.get(pk=job).error_code == "secret_unreadable"
    assert build


# -- what is searched ------------------------------------------------------------------


def _read_everything(scene: Scene) -> None:
    """Have the API and the command answer whatever they can be asked."""
    anna = scene.anna
    for listing in ("agents", "builds", "mcp/connectors", "secrets"):
        assert anna.get(f"/api/{listing}").status_code == 200
    for agent in Agent.objects.all():
        names = ("", *(f"/{each}" for each in "versions deployments env".split()))
        for rest in (*names, "/watches", "/proposals", "/grants"):
            assert anna.get(f"/api/agents/{agent.pk}{rest}").status_code == 200, rest
        for verb in ("show", "versions", "deployments", "builds", "env", "grants"):
            anna.type("agent", verb, str(agent.pk))
        if AgentDeployment.objects.filter(agent=agent, status="running").exists():
            anna.type("agent", "logs", str(agent.pk), "--lines", "9999")
    for connector in McpConnector.objects.all():
        for rest in ("", "/builds"):
            anna.get(f"/api/mcp/connectors/{connector.pk}{rest}")
        anna.type("connector", "show", str(connector.pk))
    for build in AgentBuild.objects.all():
        anna.get(f"/api/builds/{build.pk}")
        anna.get(f"/api/builds/{build.pk}/log?limit=1000")
    for job in BuildJob.objects.filter(owner_id=str(anna.user.pk)):
        for rest in ("", "/log?limit=1000", "/events", "/actions"):
            assert anna.get(f"/api/jobs/{job.pk}{rest}").status_code == 200
    anna.type("secret", "list", "--owner", "anna")


def _pages(person: Person) -> Iterator[tuple[str, bytes]]:
    """Yield every page of the admin that shows a row."""
    client = Client()
    client.force_login(make_user("root", is_staff=True, is_superuser=True))
    for model in admin.site._registry:
        meta = model._meta
        if meta.app_label != "buildqueue":
            continue
        listing = f"/admin/buildqueue/{meta.model_name}/"
        yield listing, client.get(listing).content
        for key in model._default_manager.values_list("pk", flat=True)[:100]:
            page = client.get(f"{listing}{key}/change/")
            yield f"{listing}{key}", page.content
            if meta.model_name == "buildjob":
                yield f"{listing}{key}/log", client.get(f"{listing}{key}/log/").content


def _own_folders(scene: Scene) -> list[Path]:
    """Return the folders in which agents may write what they like."""
    return [*django_settings.BUILDQUEUE["DATA_DIR"].glob("local/volumes")]


def test_no_planted_secret_stands_anywhere(scene: Scene) -> None:
    data = Path(django_settings.BUILDQUEUE["DATA_DIR"])
    with dumps.command_lines() as seen:
        _lives_of_an_agent(scene)
        _repositories(scene)
        _failures_of_agents(scene)
        _connectors(scene)
        _refusals(scene)
        _unreadable(scene)
        _read_everything(scene)
    haystacks = {
        "database": [*dumps.database()],
        "files": [*dumps.files(data, but=_own_folders(scene))],
        "answers": scene.anna.heard,
        "pages": [*_pages(scene.anna)],
        "command lines": [("ps", b"\n".join(seen))],
    }

    search = dumps.Search(scene.values)
    found = {name: search.through(places) for name, places in haystacks.items()}
    if os.environ.get("H11"):
        for name, each in found.items():
            print(name, len(haystacks[name]), len(each), file=sys.stderr)
            for one in sorted(each, key=lambda f: (f.place, f.name, f.form)):
                print("  ", one.name, "|", one.form, "|", one.place, "|", one.around[-60:], file=sys.stderr)
    assert not any(found.values()), found
