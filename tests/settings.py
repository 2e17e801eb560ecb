"""The suite's host: the app alone in a plain project, on a real PostgreSQL.

`DATABASE_URL` names the server; without it an embedded one is started, not durable.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import environ

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(tempfile.gettempdir()) / f"buildqueue-tests-{os.getuid()}"

env = environ.Env()
# What a test wants otherwise in the processes that it starts, as JSON.
OVERRIDES = json.loads(os.environ.get("BUILDQUEUE_TEST_OVERRIDES", "{}"))


def _database_url() -> str:
    if url := env.str("DATABASE_URL", default=""):
        return url
    from project import embedded_postgres

    return embedded_postgres.ensure(BASE_DIR / "var" / "test-postgres", durable=False)


SECRET_KEY = "for the tests only"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
USE_TZ = True
TIME_ZONE = "UTC"
DATABASES = OVERRIDES.get("DATABASES") or {
    "default": env.db_url_config(_database_url())
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "buildqueue",
    "tests.host",
    *OVERRIDES.get("INSTALLED_APPS", []),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
BUILDQUEUE = {
    "DATA_DIR": DATA_DIR,
    "HOST_SERVICES": [],
    "CAPABILITIES": [],
    "DUTIES": [],
    **OVERRIDES.get("BUILDQUEUE", {}),
}
