"""Where does the demo host keep what is not in the database?"""

from __future__ import annotations

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent


def data_dir() -> Path:
    """Return DATA_DIR from the environment, or `var/` beside the project."""
    return Path(os.environ.get("DATA_DIR") or BASE_DIR / "var").absolute()
