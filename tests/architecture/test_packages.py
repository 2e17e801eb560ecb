"""Are the packages that the project promises to stand on the ones that it stands on?"""

from __future__ import annotations

import ast
import re
import tomllib
from typing import Any

import pytest

from .product import ROOT, tree_of

CONFIG: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETTINGS = ROOT / "project" / "settings.py"
MAKEFILE = (ROOT / "Makefile").read_text()
FROM_ENVIRONMENT = {"SECRET_KEY", "DEBUG", "DATABASE_URL", "ALLOWED_HOSTS"}


def _names(requirements: list[Any]) -> set[str]:
    return {
        re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0]
        for each in requirements
        if isinstance(each, str)
    }


def test_the_app_itself_needs_django_and_psycopg() -> None:
    project = CONFIG["project"]

    assert {"django", "psycopg"} <= _names(project["dependencies"])
    assert project["requires-python"] == ">=3.11"
    [django] = [d for d in project["dependencies"] if d.startswith("django>")]
    assert django == "django>=5.2,<6.2"


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("demo", "django-environ"),
        ("demo", "gunicorn"),
        ("demo", "psycopg"),
        ("test", "pytest-django"),
        ("test", "pytest"),
    ],
)
def test_a_promised_package_is_in_its_group(group: str, name: str) -> None:
    assert name in _names(CONFIG["dependency-groups"][group])


def test_a_host_is_not_made_to_install_the_demos_packages() -> None:
    needed = _names(CONFIG["project"]["dependencies"])

    assert needed & {"django-environ", "gunicorn", "whitenoise", "pytest"} == set()


def test_the_demo_reads_its_environment_by_django_environ_alone() -> None:
    tree = tree_of(SETTINGS)
    read = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "env"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }

    assert "environ" in imported
    assert "os" not in imported
    assert read >= FROM_ENVIRONMENT


def test_the_demos_database_is_postgresql_by_its_url() -> None:
    assert "env.db_url_config(" in SETTINGS.read_text()


@pytest.mark.parametrize("target", ["demo", "serve", "test", "check", "help"])
def test_make_has_the_target_and_says_what_it_does(target: str) -> None:
    assert re.search(rf"^{target}:.*##\s*\S", MAKEFILE, re.M)


def test_the_demo_is_served_by_gunicorn() -> None:
    serving = "".join(p.read_text() for p in (ROOT / "project").rglob("*.py"))

    assert "project.demo" in MAKEFILE
    assert re.search(r"[\"']gunicorn[\"']", serving)


def test_the_suite_runs_under_pytest_django() -> None:
    assert CONFIG["tool"]["pytest"]["ini_options"]["DJANGO_SETTINGS_MODULE"]
    assert "tests.run" in MAKEFILE or "pytest" in MAKEFILE
