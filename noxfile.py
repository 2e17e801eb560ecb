"""Which Pythons and Djangos does the suite pass on? All that are supported and present."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False

# What differs between Djangos and Pythons: models, forms and pages, and the processes.
SMOKE = (
    "tests/unit",
    "tests/integration/models",
    "tests/integration/queue",
    "tests/integration/admin",
    "tests/integration/api",
    "tests/integration/builds",
    "tests/acceptance/test_dying.py",
    "tests/acceptance/test_agents.py",
)
# Python, Django, and how much of the suite: the oldest pair runs it whole.
PAIRS = [("3.11", "5.2", ()), ("3.12", "6.1", SMOKE), ("3.13", "6.1", SMOKE)]


@nox.session
@nox.parametrize(
    ("python", "django", "paths"),
    PAIRS,
    ids=[f"{python}-django{django}" for python, django, _ in PAIRS],
)
def suite(session: nox.Session, django: str, paths: tuple[str, ...]) -> None:
    """Run the suite with one Django; the matrix' smoke runs leave browsers out."""
    groups = nox.project.dependency_groups(nox.project.load_toml(), "test")
    session.install("-e", ".[api,local,mcp,s3]", *groups, f"django~={django}.0")
    session.run("python", "-m", "tests.run", *paths, *session.posargs)
