"""Does a stranger's project test its jobs by the page, with Django's own runner?

A bare project, an app `shop` with what `docs/how-to/test-your-jobs.md` says, and
`manage.py test` on a database of its own: no pytest, no worker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.db import connection

from tests.support.scratch import url_of

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "test-your-jobs.md"
BLOCK = re.compile(r"^```python\n# (\S+\.py)( \(continued\))?\n(.*?)^```$", re.M | re.S)
PATIENCE = 300

SETTINGS = """
import os

import environ

SECRET_KEY = "for the tests only"
USE_TZ = True
DATABASES = {"default": environ.Env().db_url_config(os.environ["HOST_DB"])}
DATABASES["default"]["TEST"] = {"NAME": os.environ["HOST_TEST_DB"]}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = [
    "django.contrib.auth", "django.contrib.contenttypes", "buildqueue", "shop"
]
BUILDQUEUE = {"HOST_SERVICES": [], "DATA_DIR": "var"}
"""


def _write_project(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "urls.py").write_text("urlpatterns = []\n")
    (folder / "host_settings.py").write_text(SETTINGS)
    found = BLOCK.findall(PAGE.read_text())
    assert {name for name, _, _ in found} == {
        "shop/models.py",
        "shop/jobs.py",
        "shop/tests.py",
    }
    for name, continued, text in found:
        path = folder / name
        before = path.read_text() + "\n\n" if continued else ""
        path.write_text(before + text)


@pytest.mark.django_db
def test_a_bare_project_tests_its_jobs_by_the_page(tmp_path: Path) -> None:
    _write_project(tmp_path)
    written = (tmp_path / "shop" / "tests.py").read_text().count("    def test_")
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "host_settings",
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "HOST_DB": url_of(connection.settings_dict["NAME"]),
        "HOST_TEST_DB": f"scratch_{uuid.uuid4().hex}",
    }

    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "test", "shop"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Ran {written} tests" in done.stderr
    assert written == 10
