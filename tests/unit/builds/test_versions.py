"""Which versions are plain, and what does a source say of itself?"""

from __future__ import annotations

from pathlib import Path

import pytest

from buildqueue.builds import versions
from buildqueue.exceptions import Refused


@pytest.mark.parametrize("version", ["0.0.0", "1.0.0", "10.20.30", "1.2.1000000"])
def test_three_numbers_are_a_version(version: str) -> None:
    assert versions.check(version) == version


@pytest.mark.parametrize(
    "version",
    [
        "",
        "1",
        "1.2",
        "1.2.3.4",
        "v1.2.3",
        "1.2.3-rc1",
        "1.2.3+build",
        "01.2.3",
        "1.2.x",
        " 1.2.3",
        "1.2.3\n",
        "-1.2.3",
        "\u0661.\u0662.\u0663",  # digits, but not ours
        "latest",
        "9" * 60 + ".0.0",
        "0.0." + "9" * 46,  # the patch after it would not fit
    ],
)
def test_anything_else_is_refused(version: str) -> None:
    with pytest.raises(Refused) as refused:
        versions.check(version)

    assert (refused.value.code, refused.value.status) == ("invalid_version", 400)
    assert "version" in refused.value.fields


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("AgentCard.json", '{"version": "1.2.3"}', "1.2.3"),
        ("AgentCard.json", '{"version": "v1.2.3"}', "1.2.3"),
        ("agent-card.json", '{"version": "1.2.3"}', "1.2.3"),
        (".well-known/agent.json", '{"version": "1.2.3"}', "1.2.3"),
        ("pyproject.toml", '[project]\nversion = "2.0.1"', "2.0.1"),
        ("pyproject.toml", '[tool.poetry]\nversion = "2.0.1"', "2.0.1"),
        ("pyproject.toml", '[project]\nversion = "2.0.1rc1"', None),
        ("pyproject.toml", "tool = 3", None),
        ("pyproject.toml", "[project", None),
        ("AgentCard.json", '{"version": 7}', None),
        ("AgentCard.json", '["1.2.3"]', None),
        ("AgentCard.json", "not json", None),
        ("AgentCard.json", "[" * 100_000, None),
        ("AgentCard.json", '{"version": "1.2.3"}' + " " * 1_100_000, None),
        ("readme.txt", "1.2.3", None),
    ],
)
def test_a_version_is_read_from_the_source(
    tmp_path: Path, name: str, content: str, found: str | None
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)

    assert versions.read_version(tmp_path) == found


def test_the_card_goes_before_the_project(tmp_path: Path) -> None:
    (tmp_path / "AgentCard.json").write_text('{"version": "1.0.0"}')
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "2.0.0"')

    assert versions.read_version(tmp_path) == "1.0.0"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"version": "1.0.0"}')
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "AgentCard.json").symlink_to(outside)

    assert versions.read_version(tree) is None
