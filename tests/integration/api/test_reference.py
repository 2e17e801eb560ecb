"""Does the reference page know every code, field and address of the API?"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ninja import Schema

from buildqueue.api import asked, problems, reading, schemas
from buildqueue.api.routing import api

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "api.md").read_text()
RAISED = {"refused", "Refused", "Rejected", "Unavailable", "_refused", "problem"}
# What a verb may refuse; what the domain refuses stands in the codes of builds.
VERBS = (
    "queue/verbs.py",
    "queue/retrying.py",
    "queue/transitions/timeline.py",
    "queue/actions.py",
    "queue/questions.py",
    "builds/retirement.py",
)


def raised_in(path: Path) -> set[str]:
    """Return the codes that a file's calls name as their first argument."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        first = node.args[0]
        if name in RAISED and isinstance(first, ast.Constant):
            found.add(str(first.value))
    return found


def api_files() -> list[Path]:
    return sorted((ROOT / "buildqueue" / "api").rglob("*.py"))


def test_every_code_of_the_api_stands_in_its_list() -> None:
    used = set().union(*(raised_in(path) for path in api_files()))

    assert used == set(problems.CODES)


@pytest.mark.parametrize("code", sorted(problems.CODES))
def test_every_code_of_the_api_is_documented_with_its_status(code: str) -> None:
    status, _ = problems.CODES[code]

    assert f"| `{code}` | {status} |" in PAGE


@pytest.mark.parametrize("name", VERBS)
def test_every_code_of_a_verb_is_documented(name: str) -> None:
    codes = raised_in(ROOT / "buildqueue" / name)

    assert [code for code in sorted(codes) if f"`{code}`" not in PAGE] == []


def test_every_address_is_documented() -> None:
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in PAGE


def test_every_field_is_documented() -> None:
    answers = [each for each in _classes(schemas) if issubclass(each, Schema)]
    bodies = [each for each in _classes(asked) if issubclass(each, reading.Body)]
    fields = {field for each in answers + bodies for field in each.model_fields}

    wanted = sorted(fields | {also for body in bodies for also in body.ALSO})
    assert len(answers) > 30
    assert len(bodies) >= 15
    assert [field for field in wanted if f"`{field}`" not in PAGE] == []


def _classes(module: object) -> list[Any]:
    return [each for each in vars(module).values() if isinstance(each, type)]


def test_every_body_is_described_in_the_schema() -> None:
    without = {
        f"{method} {path}"
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method, operation in methods.items()
        if method in ("post", "put", "patch") and "requestBody" not in operation
    }

    # They need no more than their address.
    assert {each.rpartition("/")[2] for each in without} == {
        "accept",
        "dismiss",
        "refresh",
    }


def test_no_two_operations_have_the_same_name() -> None:
    names = [
        operation["operationId"]
        for methods in api.get_openapi_schema()["paths"].values()
        for operation in methods.values()
    ]

    assert len(names) == len(set(names))


WITHOUT_NINJA = """
import sys
import django

sys.modules["ninja"] = None  # as if it were not installed
django.setup()
from buildqueue import urls
from buildqueue.api import asked, bodies, problems, receiving

assert urls.urlpatterns == [], urls.urlpatterns
print("fine")
"""


def test_without_django_ninja_there_is_no_address_and_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NINJA],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )

    assert done.stdout == "fine\n", done.stderr
