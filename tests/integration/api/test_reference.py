"""Does the reference page know every code, field and address of the API?"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from buildqueue.api import bodies, problems, schemas
from buildqueue.api.routing import api

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "api.md").read_text()
RAISED = {"refused", "Refused", "Rejected", "Unavailable", "_refused", "problem"}
# What a verb may refuse, and what a submission runs through before it is queued.
SUBMISSION = (
    "queue/verbs.py",
    "queue/retrying.py",
    "queue/transitions/timeline.py",
    "queue/actions.py",
    "queue/questions.py",
    "builds/submission.py",
    "builds/retirement.py",
    "builds/versions.py",
    "builds/sources.py",
    "builds/lifecycle/agents.py",
    "builds/lifecycle/opening.py",
    "builds/lifecycle/stops.py",
    "backends/archives.py",
    "backends/archivenames.py",
    "backends/archivestreams.py",
    "backends/tarmembers.py",
    "backends/tarnames.py",
    "backends/zipmembers.py",
    "backends/localplan.py",
    "backends/dockerfile.py",
    "backends/contextcopy.py",
    "backends/pipinstall.py",
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
    return sorted((ROOT / "buildqueue" / "api").glob("*.py"))


def test_every_code_of_the_api_stands_in_its_list() -> None:
    used = set().union(*(raised_in(path) for path in api_files()))

    assert used == set(problems.CODES)


@pytest.mark.parametrize("code", sorted(problems.CODES))
def test_every_code_of_the_api_is_documented_with_its_status(code: str) -> None:
    status, _ = problems.CODES[code]

    assert f"| `{code}` | {status} |" in PAGE


@pytest.mark.parametrize("name", SUBMISSION)
def test_every_code_of_a_verb_or_submission_is_documented(name: str) -> None:
    codes = raised_in(ROOT / "buildqueue" / name)

    assert [code for code in sorted(codes) if f"`{code}`" not in PAGE] == []


def test_every_address_is_documented() -> None:
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in PAGE


def test_every_field_is_documented() -> None:
    answers = (
        schemas.Job,
        schemas.Build,
        schemas.AgentOut,
        schemas.Agents,
        schemas.QueuedVersion,
        schemas.QueuedEnd,
        schemas.LogPage,
        schemas.Chunk,
        schemas.Timeline,
        schemas.Event,
        schemas.Step,
        schemas.Question,
        schemas.AskedField,
        schemas.Actions,
        schemas.Action,
    )
    fields = {field for answer in answers for field in answer.model_fields}

    wanted = sorted(fields | set(bodies.UPLOAD_FIELDS))
    assert [field for field in wanted if f"`{field}`" not in PAGE] == []


WITHOUT_NINJA = """
import sys
import django

sys.modules["ninja"] = None  # as if it were not installed
django.setup()
from buildqueue import urls
from buildqueue.api import bodies, problems, receiving

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
