"""Is any secret to be found anywhere but where it is used?

A real worker, its runtime and a real git server do all that brings secrets along, with
programs that tell whatever they know. Then everything that is kept or answered is
searched for the secrets, in each of their forms; that the search finds them is shown by
planting them there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib import admin
from django.test import Client

from buildqueue.executors import host
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    BuildJob,
    McpConnector,
    McpConnectorBuild,
    McpConnectorTool,
    Notice,
    OwnerSecret,
    SourceWatch,
)
from buildqueue.states import DeploymentStatus
from tests.factories import make_agent, make_user
from tests.support import blabbing, dumps
from tests.support.waiting import wait_until

from .hosting import Host
from .planting import OF_AGENT, Scene, planted, scene_on


@pytest.fixture
def scene(here: Host) -> Iterator[Scene]:
    with scene_on(here) as made:
        made.worker()
        yield made


# -- the story -------------------------------------------------------------------------


def _lives_of_an_agent(scene: Scene) -> None:
    anna = scene.anna
    scene.ended(scene.upload("blab", blabbing.agent_zip()))
    assert scene.env(*OF_AGENT, "provided").items() <= scene.says("blab").items()
    source = data() / "source-of-anna"
    source.mkdir()
    (source / "main.py").write_text(blabbing.agent()["main.py"] + "# newer\n")
    scene.ended(
        anna.type(
            *("agent", "update", "blab", str(source)),
            *("--env", "MY_CHANGED", "--env", "MY_SHORT"),
            **scene.env("changed", "short"),
        )
    )
    at = f"/api/agents/{scene.agent('blab').pk}"
    assert anna.ask("PATCH", f"{at}/env", scene.env("patched")).status_code == 200
    scene.ended(scene.queued(anna.ask("POST", f"{at}/restart")))
    assert scene.env("changed", "patched").items() <= scene.says("blab").items()
    scene.ended(scene.queued(anna.ask("POST", f"{at}/rollback")))
    scene.ended(scene.queued(anna.ask("POST", f"{at}/scale", {"replicas": 2})))
    assert scene.env(*OF_AGENT, "patched").items() <= scene.says("blab").items()


def _repositories(scene: Scene) -> None:
    git, anna, values = scene.git, scene.anna, scene.values
    git.repository("anna/private").commit(blabbing.agent())
    git.require_token(values["token"])
    env = scene.env("plain")
    told = scene.clone("by-token", "anna/private", env=env, token=values["token"])
    by_shell = anna.type(
        *("agent", "clone", "by-shell", "--owner", "anna", "--token-stdin"),
        *("--git", git.url("anna/private")),
        stdin=f"{values['token']}\n",
    )
    for each in (told, by_shell):
        scene.ended(each)
    git.require_token(values["owned"])
    kept = anna.ask("PUT", "/api/secrets/GIT", {"value": values["owned"]})
    assert kept.status_code == 200
    anna.type("secret", "set", "SHELL", "--owner", "anna", stdin=values["owned"])
    scene.ended(scene.clone("by-secret", "anna/private", env=env, secret="GIT"))
    watch = {"url": git.url("anna/private"), "ref": "main", "secret": "GIT"}
    at = f"/api/agents/{scene.agent('by-secret').pk}/watches"
    made = anna.ask("POST", at, watch).json()
    git.faults["anna/private"] = lambda asked: asked.send(
        403,
        {"Content-Type": "text/plain"},
        f"no {values['owned']}, no {asked.headers['Authorization']}".encode(),
    )
    told = scene.clone("refused", "anna/private", env=env, secret="GIT")
    assert scene.ended(told, "failed").error_code == "git_access_denied"
    anna.ask("POST", f"/api/watches/{made['id']}/check")
    wait_until(lambda: SourceWatch.objects.filter(failures__gt=0).exists())


def _failures_of_agents(scene: Scene) -> None:
    known = [scene.values[name] for name in OF_AGENT]
    queued = {
        "dependency_failed": scene.upload("builds", blabbing.building_zip(*known)),
        "start_failed": scene.upload("dies", blabbing.agent_zip("dies")),
        "health_timeout": scene.upload("garbled", blabbing.agent_zip("garbled")),
    }
    for code, told in queued.items():
        assert scene.ended(told, "failed").error_code == code


@contextmanager
def _falling(scene: Scene) -> Iterator[None]:
    """Have an agent fall again and again meanwhile, until its crash is told."""
    scene.ended(scene.upload("falls", blabbing.agent_zip()))
    url, over = f"{scene.agent('falls').url}/fall", threading.Event()

    def push() -> None:
        while not over.wait(0.5):
            with suppress(OSError, HTTPException):
                urllib.request.urlopen(url, timeout=30)

    pushing = threading.Thread(target=push)
    pushing.start()
    fallen = AgentDeployment.objects.filter(
        agent__name="falls", status=DeploymentStatus.CRASHED
    )
    try:
        yield
        wait_until(fallen.exists, timeout=240)
    finally:
        over.set()
        pushing.join()


def _connectors(scene: Scene) -> None:
    env = json.dumps(scene.env("server", "odd", "lines"))

    def send(manner: blabbing.ServerManner) -> dict[str, Any]:
        source = blabbing.server_zip(manner)
        return scene.queued(
            scene.anna.send("/api/mcp/connectors/upload", source, name=manner, env=env)
        )

    good, bad = [send("well"), send("turns")], [send("dies"), send("refuses")]
    bad.append(send("wrong"))
    for told in good:
        scene.ended(told)
    assert McpConnectorTool.objects.count() == 8
    for told in bad:
        scene.ended(told, "failed")
    refresh = f"/api/mcp/connectors/{good[1]['connector_id']}/refresh"
    scene.ended(scene.queued(scene.anna.ask("POST", refresh)), "failed")


def _refusals(scene: Scene) -> None:
    """Bring secrets where they do not belong."""
    secret, url = scene.values["plain"], scene.git.url("anna/private")
    at, agent = url.partition("://")[2], f"/api/agents/{scene.agent('blab').pk}"
    clone = {"name": "x", "url": url}
    for verb, address, body in (
        ("PUT", "/api/secrets/X", {"value": [secret]}),
        ("PUT", "/api/secrets/X", {"value": secret, "ref": secret}),
        ("PUT", "/api/secrets/X", {"value": f"{secret}\0"}),
        ("PUT", "/api/secrets/X", f'{{"value": {secret}'),
        ("PATCH", f"{agent}/env", {"A": {"value": secret}}),
        ("PATCH", f"{agent}/env", {"HOST": secret, "1": secret, "A": secret * 9999}),
        ("PUT", f"{agent}/update", {"env": secret}),
        ("PUT", f"{agent}/update", {"env": [secret]}),
        ("POST", "/api/agents/clone", {**clone, "token": [secret]}),
        ("POST", "/api/agents/clone", {**clone, "token": f"{secret}\n"}),
        ("POST", "/api/agents/clone", {**clone, "url": f"http://me:{secret}@{at}"}),
        ("POST", "/api/agents/clone", {**clone, "url": f"{url}?token={secret}"}),
        ("POST", f"{agent}/watches", {"url": f"http://{secret}@{at}", "ref": "main"}),
    ):
        answer = scene.anna.ask(verb, address, body)
        assert 400 <= answer.status_code < 500, (address, answer.content)
    told = scene.anna.send(
        "/api/agents/upload-and-deploy", blabbing.agent_zip(), name="x", env=secret
    )
    assert told.status_code == 422


def _unreadable(scene: Scene) -> None:
    agent = scene.agent("by-token")
    of_another = OwnerSecret.objects.values_list("encrypted_value", flat=True)[0]
    agent.secrets_env = {"MY_PLAIN": of_another[:-9]}
    agent.save()
    told = scene.queued(scene.anna.ask("POST", f"/api/agents/{agent.pk}/restart"))
    assert scene.ended(told, "failed").error_code == "secret_unreadable"


# -- what is searched ------------------------------------------------------------------


def data() -> Path:
    """Return the folder of all that this host keeps."""
    return Path(django_settings.BUILDQUEUE["DATA_DIR"])


def _read_everything(scene: Scene) -> None:
    """Have the API and the command answer whatever they can be asked."""
    anna = scene.anna
    for listing in ("agents", "builds", "mcp/connectors", "secrets"):
        anna.get(f"/api/{listing}")
    for agent in Agent.objects.all():
        names = ("versions", "deployments", "env", "watches", "proposals", "grants")
        for rest in ("", *(f"/{name}" for name in names)):
            anna.get(f"/api/agents/{agent.pk}{rest}")
    for connector in McpConnector.objects.all():
        anna.get(f"/api/mcp/connectors/{connector.pk}")
        anna.get(f"/api/mcp/connectors/{connector.pk}/builds")
    for build in AgentBuild.objects.all():
        anna.get(f"/api/builds/{build.pk}")
        anna.get(f"/api/builds/{build.pk}/log?limit=500")
    for job in BuildJob.objects.filter(owner_id=str(anna.user.pk)):
        for rest in ("", "/log?limit=500", "/events", "/actions"):
            anna.get(f"/api/jobs/{job.pk}{rest}")
    for agent in Agent.objects.all():
        for verb in ("show", "versions", "deployments", "builds", "env", "grants"):
            anna.hear("agent", verb, str(agent.pk), "--json")
    for connector in McpConnector.objects.all():
        for verb in ("show", "tools"):
            anna.hear("connector", verb, str(connector.pk), "--json")
    for verb in ("list", "actions", "notices"):
        anna.hear(verb, "--json")
    for job in BuildJob.objects.all():
        anna.hear("show", str(job.pk), "--json")
        anna.hear("logs", str(job.pk))
    anna.hear("agent", "logs", "blab", "--lines", "9999", "--json")
    anna.hear("secret", "list", "--owner", "anna", "--json")


def _pages() -> Iterator[tuple[str, bytes]]:
    """Yield every page of the admin that shows a row."""
    client, root = Client(), make_user("root", is_staff=True, is_superuser=True)
    client.force_login(root)  # type: ignore[arg-type]  # the host's own sort of user
    for model in admin.site._registry:
        if model._meta.app_label != "buildqueue":
            continue
        listing = f"/admin/buildqueue/{model._meta.model_name}/"
        pages = [listing]
        for key in model._default_manager.values_list("pk", flat=True):
            pages.append(f"{listing}{key}/change/")
            if model is BuildJob:
                pages.append(f"{listing}{key}/log/")
        for page in pages:
            yield page, client.get(page).content


@pytest.mark.slow
def test_no_planted_secret_stands_anywhere(scene: Scene) -> None:
    with dumps.command_lines() as seen:
        _lives_of_an_agent(scene)
        with _falling(scene):
            _repositories(scene)
            _failures_of_agents(scene)
            _connectors(scene)
        _refusals(scene)
        _unreadable(scene)
        _read_everything(scene)
    haystacks = {
        "database": [*dumps.database()],
        "files": [*dumps.files(data()), *dumps.files(host.local_root())],
        "answers": scene.anna.heard,
        "pages": [*_pages()],
        "command lines": [("ps", b"\n".join(seen))],
    }

    search = dumps.Search(scene.values)
    found = [each for places in haystacks.values() for each in search.through(places)]

    assert not found, dumps.told(found)
    _assert_all_was_there(haystacks)


def _assert_all_was_there(haystacks: dict[str, list[tuple[str, bytes]]]) -> None:
    """Check that what was searched holds what it should: each place, and what was said."""
    wanted = {
        "database": ("knowing ***", "MY_PROVIDED", "plain ***", "no ***", "job.failed"),
        "files": ("it starts with", "output.log", "daemon.log", "keeper.log", "***"),
        "answers": ("it starts with", "knowing ***", "MY_PLAIN", "secret_unreadable"),
        "pages": ("knowing ***", "MY_PLAIN", "secret_unreadable"),
        "command lines": ("ls-remote", "pip", "localruntime", "buildqueue"),
    }
    missing = [
        (name, word)
        for name, words in wanted.items()
        for word in words
        if not any(
            word.encode() in each
            for place in haystacks[name]
            for each in (place[0].encode(), place[1])
        )
    ]
    assert not missing
    whole_files = [place for place, _ in haystacks["files"]]
    for name in ("worker-0.log", "state.json", "main.py"):
        assert any(place.endswith(name) for place in whole_files), whole_files
    assert McpConnectorBuild.objects.filter(status="failed").count() == 3
    assert Notice.objects.exists()


# -- the searches themselves -----------------------------------------------------------


def test_each_search_finds_each_form_of_each_secret(
    committed: None, tmp_path: Path
) -> None:
    values = planted()
    search = dumps.Search(values)
    wanted = search.wanted()
    texts = [f"before{text}after" for text in wanted.values()]
    make_agent(secrets_env={str(at): text for at, text in enumerate(texts)})
    OwnerSecret.objects.create(owner_id="1", name="A", encrypted_value=" ".join(texts))
    for at, text in enumerate(texts):
        (tmp_path / f"plain-{at}").write_text(text)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/it", "\n".join(texts))
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "plain-0", "it")
    program = "import sys; sys.stdin.read()"
    with dumps.command_lines() as seen:
        shown = subprocess.Popen(
            [sys.executable, "-c", program, *texts], stdin=subprocess.PIPE
        )
        wait_until(lambda: any(texts[0].encode() in each for each in seen))
        shown.communicate()

    for places in (
        [each for each in dumps.database() if each[0].endswith("agent")],
        [each for each in dumps.database() if each[0].endswith("secret")],
        [each for each in dumps.files(tmp_path) if each[0].startswith("plain-")],
        [each for each in dumps.files(tmp_path) if each[0] == "a.zip!in/it"],
        [("ps", b"\n".join(seen))],
    ):
        found = {(each.name, each.form) for each in search.through(places)}
        assert found == set(wanted)
    [packed_one] = [each for each in dumps.files(tmp_path) if each[0] == "a.tar.gz!it"]
    assert search.through([packed_one])
    assert not search.through([("nothing", " ".join(planted().values()).encode())])
