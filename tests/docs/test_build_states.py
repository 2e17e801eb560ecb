"""Does the page of builds name every status there is, and each change of a build?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from buildqueue import states

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "builds.md").read_text()
PART = PAGE.partition("## What a version goes through")[2]
STATUSES = {
    "build": states.BuildStatus,
    "version": states.VersionStatus,
    "deployment": states.DeploymentStatus,
    "agent": states.AgentStatus,
    "connector": states.ConnectorStatus,
    "connector's build": states.ConnectorBuildStatus,
    "watch": states.WatchStatus,
    "proposal": states.ProposalStatus,
}


def _row(first: str) -> list[str]:
    """Return the other cells of the row that begins with this one."""
    [row] = re.findall(rf"^\| {re.escape(first)} \| (.+) \|$", PART, re.M)
    return [str(cell) for cell in row.split(" | ")]


@pytest.mark.parametrize("thing", STATUSES)
def test_every_status_of_a_thing_is_named_and_no_other(thing: str) -> None:
    named = re.findall(r"`(\w+)`", _row(thing)[0])

    assert named == STATUSES[thing].values


@pytest.mark.parametrize("status", states.BUILD_FLOW)
def test_a_build_changes_as_the_page_says(status: str) -> None:
    named = re.findall(r"`(\w+)`", _row(f"`{status}`")[0])

    assert set(named) == states.BUILD_FLOW[status]


@pytest.mark.parametrize(
    "kind", [kind for kind in states.BUILD_KINDS if kind != "clone"]
)
def test_the_steps_of_a_kind_are_told(kind: str) -> None:
    rows = re.findall(r"^\| (`.+?) \| .*(?:all|clean).* \|$", PAGE, re.M)

    assert any(f"`{kind}`" in row for row in rows)
