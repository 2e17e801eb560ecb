"""Does the app work in a host that has no Django admin?"""

from __future__ import annotations

import subprocess
import sys

from .product import ROOT

PROGRAM = """
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "buildqueue"],
    TEMPLATES=[{
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
    }],
)
django.setup()

from django.core.management import call_command

call_command("check")
"""


def test_a_host_without_the_admin_passes_its_checks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
