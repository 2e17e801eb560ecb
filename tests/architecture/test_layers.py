"""Does every module import only what lies below it? `pyproject.toml` has the contracts."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from .product import PACKAGE, ROOT


def test_the_import_contracts_are_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run(
        [str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Layers, downwards only KEPT" in done.stdout


def test_the_layers_are_exhaustive() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [layers] = [
        contract
        for contract in config["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]

    assert layers["exhaustive"] is True
    assert set(layers["exhaustive_ignores"]) == {"apps", "migrations", "templatetags"}
    placed = {
        name.strip()
        for layer in layers["layers"]
        for name in layer.replace("|", ":").split(":")
    }
    there = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert there - placed == {"__init__", "apps", "migrations", "templatetags"}
