"""Does a host's service get the environment it brings, and nothing of the worker's?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

SERVICES = """
import sys
from buildqueue.queue.services import ServiceCommand

WRITE = "import json, os, sys; open(sys.argv[1], 'w').write(json.dumps(dict(os.environ)))"

def plain():
    return [sys.executable, "-I", "-c", WRITE, "PLACE"]

def with_secret():
    return ServiceCommand(argv=plain(), env={"KEY": "for the service"})

def broken():
    raise RuntimeError("the host's own fault")
"""
START = """
import sys, django
django.setup()
from buildqueue.worker.nursery import Nursery
Nursery().start_services(["services.broken", f"services.{sys.argv[1]}"])
"""


FAILS = """
import os, sys, django
django.setup()
from buildqueue.worker.nursery import Nursery
nursery = Nursery()
nursery.start_services(["services.fails"])
while "services.fails" not in "".join(open(sys.argv[1])):
    nursery.reap()
"""


def test_a_service_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "services.py").write_text(
        "import sys\n"
        "def fails():\n"
        "    return [sys.executable, '-I', '-c', 'import not_installed']\n"
    )
    told = tmp_path / "told"
    repository = Path(__file__).parents[3]

    with told.open("w") as log:
        subprocess.run(
            [sys.executable, "-c", FAILS, str(told)],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{repository}:{tmp_path}",
                "DATABASE_URL": "postgresql:///not-opened",
                "DJANGO_SETTINGS_MODULE": "tests.settings",
            },
            stderr=log,
            check=True,
            timeout=120,
        )

    assert "ended with 1" in told.read_text()
    assert "No module named 'not_installed'" in told.read_text()


@pytest.mark.parametrize(
    ("name", "key"), [("plain", None), ("with_secret", "for the service")]
)
def test_a_service_sees_its_own_environment_alone(
    tmp_path: Path, name: str, key: str | None
) -> None:
    place = tmp_path / "environ"
    (tmp_path / "services.py").write_text(SERVICES.replace("PLACE", str(place)))
    repository = Path(__file__).parents[3]

    subprocess.run(
        [sys.executable, "-c", START, name],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{repository}:{tmp_path}",
            "DATABASE_URL": "postgresql://secret@127.0.0.1/none",
            "DJANGO_SETTINGS_MODULE": "tests.settings",
        },
        check=True,
    )

    seen = wait_until(lambda: place.exists() and place.read_text())
    env = json.loads(seen)
    assert env.get("KEY") == key
    assert "DATABASE_URL" not in env
