"""Does the wheel work in a stranger's empty project, by the book?

The wheel is built and installed into a fresh virtual environment without network; the
dependencies are those of the suite. `docs/how-to/add-a-kind.md` is what is executed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.scratch import scratch_database, url_of

from .product import ROOT

PAGE = ROOT / "docs" / "how-to" / "add-a-kind.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"# (\S+\.py)( \(continued\))?\n")
PATIENCE = 300

SETTINGS = """
import environ  # the host's own choice, as good as any
DATABASES = {"default": environ.Env().db_url_config(__import__("os").environ["HOST_DB"])}
INSTALLED_APPS += ["buildqueue", "shop"]
ALLOWED_HOSTS = ["testserver"]
BUILDQUEUE = {"HOST_SERVICES": [], "DATA_DIR": BASE_DIR / "var"}  # only a job queue
"""

LOOK = """
import buildqueue
from django.contrib.auth import get_user_model
from django.test import Client
from buildqueue.models import BuildJob, JobRun
from shop.models import Order

assert "site-packages" in buildqueue.__file__, buildqueue.__file__
invoice = BuildJob.objects.get(kind="send_invoice")
assert invoice.status == "done", (invoice.status, invoice.error_msg)
assert invoice.result == {"sent_to": "anna@example.com"}, invoice.result
assert invoice.attempt == 1 and invoice.owner_id == "anna@example.com"
reminder = BuildJob.objects.get(kind="send_reminder")
assert reminder.status == "failed", (reminder.status, reminder.error_msg)
assert reminder.error_code == "max_attempts_exhausted", reminder.error_code
assert (reminder.attempt, reminder.failures, reminder.queue) == (2, 2, "mail")
assert Order.objects.get().invoiced_at is None  # by the final hook
assert set(JobRun.objects.values_list("outcome", flat=True)) == {"succeeded", "failed"}

client = Client()
client.force_login(get_user_model().objects.create_superuser("root"))
for page in ("", "buildqueue/buildjob/", f"buildqueue/buildjob/{invoice.pk}/change/"):
    shown = client.get("/admin/" + page, follow=True)
    assert shown.status_code == 200, (page, shown.status_code)
    print("PAGE", page, b"Build queue" in shown.content, b"send_invoice" in shown.content)
"""


@dataclass(frozen=True, slots=True)
class Host:
    """A stranger's project, and the interpreter it runs on."""

    folder: Path
    python: Path
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        """Run the interpreter in the project; fail with what it said."""
        done = subprocess.run(
            [str(self.python), *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        said = f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, said
        return done.stdout

    def follow(self, page: str) -> None:
        """Do what the page says: write its files, type its commands, in its order."""
        for language, text in BLOCK.findall(page):
            if language == "console":
                for line in text.splitlines():
                    if line.startswith("$ "):
                        program, *arguments = shlex.split(line[2:])
                        assert program == "python", line
                        self.run(*arguments)
                continue
            named = FILE.match(text)
            assert named, f"a block without its file: {text[:60]!r}"
            path = self.folder / named[1]
            before = path.read_text() if named[2] else ""
            path.write_text(before + "\n\n" + text[named.end() :])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, without network and without leaving anything in the source."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    _run([*build, "--outdir", str(folder), str(ROOT)])
    [built] = folder.glob("*.whl")
    return built


def _environment_with(wheel: Path, folder: Path) -> Path:
    """Make a virtual environment of the wheel; return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    _run([*pip, "install", "--no-deps", "--no-index", "--no-compile", str(wheel)])
    # Only the folder: its own .pth files, and with them this checkout, are not read.
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture
def host(wheel: Path, tmp_path: Path, db: None) -> Iterator[Host]:
    """Make an empty Django project with an empty app, on an empty database."""
    python = _environment_with(wheel, tmp_path / "environment")
    folder = tmp_path / "mysite"
    folder.mkdir()
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO_", "DATABASE_", "PYTHON", "COV_"))
    }
    with scratch_database() as name:
        environment = inherited | {"HOST_DB": url_of(name)}
        made = Host(folder=folder, python=python, environment=environment)
        made.run("-m", "django", "startproject", "mysite", ".")
        made.run("manage.py", "startapp", "shop")
        with (folder / "mysite" / "settings.py").open("a") as settings:
            settings.write(SETTINGS)
        yield made


@pytest.mark.slow
def test_an_empty_project_runs_a_kind_of_its_own_by_the_book(host: Host) -> None:
    host.follow(PAGE.read_text())

    shown = host.run("manage.py", "shell", "-c", textwrap.dedent(LOOK))

    pages = [line for line in shown.splitlines() if line.startswith("PAGE")]
    assert len(pages) == 3
    assert all("True" in line for line in pages)
    assert pages[1].endswith("True True")
    assert pages[2].endswith("True True")


def test_the_wheel_ships_what_the_app_needs_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "buildqueue").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name for name in names if ".dist-info/" not in name} == there
    assert "buildqueue/py.typed" in names
    assert any(name.startswith("buildqueue/templates/") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
