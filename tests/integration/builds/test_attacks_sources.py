"""Does a source that would cost whoever reads it hours, or all memory, end at once?"""

from __future__ import annotations

from pathlib import Path

import pytest

from buildqueue.backends.localplan import plan_source
from buildqueue.builds import versions
from buildqueue.builds.connectors.submission import submit_connector
from buildqueue.exceptions import Refused, Rejected
from buildqueue.models import McpConnectorBuild
from tests.support.zips import zipped

from .conftest import ANNA, World, upload

MANY_PARTS = 2_000


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("pyproject.toml", "[" + ".".join("a" * MANY_PARTS) + "]"),
        ("pyproject.toml", ".".join("a" * MANY_PARTS) + " = 1"),
        ("Cargo.toml", "a = {" + ".".join("a" * MANY_PARTS) + " = 1}"),
        ("Cargo.toml", "# " + 300_000 * "x"),
    ],
)
def test_a_project_that_takes_long_to_read_states_no_version(
    tmp_path: Path, file: str, line: str
) -> None:
    table = "project" if file == "pyproject.toml" else "package"
    stated = f'[{table}]\nversion = "3.0.0"\n'
    (tmp_path / file).write_text(stated)
    assert versions.read_version(tmp_path) == "3.0.0"

    (tmp_path / file).write_text(f"{stated}[other]\n{line}\n")

    assert versions.read_version(tmp_path) is None


def test_a_deeply_nested_card_states_no_version(tmp_path: Path) -> None:
    (tmp_path / "AgentCard.json").write_text("[" * 100_000)

    assert versions.read_version(tmp_path) is None


def _dockerfile(*lines: str) -> str:
    return "\n".join(("FROM python", *lines, 'CMD ["python", "main.py"]', ""))


@pytest.mark.parametrize(
    "dockerfile",
    [
        _dockerfile(
            f"ENV A={20_000 * 'x'}", *(f"ENV B{number}=$A" for number in range(100))
        ),
        _dockerfile(f"COPY {200 * 'm* '} /"),
        _dockerfile(f"COPY {'*'.join('m' * 2_000)} /"),
    ],
    ids=["environment", "patterns", "pattern"],
)
def test_a_dockerfile_that_costs_too_much_is_refused(
    world: World, tmp_path: Path, dockerfile: str
) -> None:
    (tmp_path / "main.py").write_text("")
    (tmp_path / "Dockerfile").write_text(dockerfile)

    with pytest.raises(Rejected) as rejected:
        plan_source(tmp_path)
    with pytest.raises(Refused) as refused:
        upload(files={"Dockerfile": dockerfile})

    assert rejected.value.code == refused.value.code == "dockerfile_invalid"


def test_a_connectors_environment_does_not_grow_without_end(world: World) -> None:
    def submit(letter: str) -> None:
        submit_connector(
            owner_id="1",
            caller=ANNA,
            name="tools",
            source=zipped(),
            env={f"{letter}{number}": "v" for number in range(60)},
        )

    submit("A")
    with pytest.raises(Refused) as refused:
        submit("B")
    submit("A")

    assert refused.value.code == "invalid_environment"
    assert McpConnectorBuild.objects.count() == 2
