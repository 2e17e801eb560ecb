"""Does the command line do what it says, and tell so by its exit code?"""

from __future__ import annotations

import ast
from pathlib import Path

from project import embedded_postgres
from tests.embedded.servers import ask, command, server_pid


def test_start_prints_a_url_that_works(pg: Path) -> None:
    done = command(["start", "--data-dir", pg, "--database", "other"])
    assert done.returncode == 0
    assert ask(done.stdout.strip(), "SELECT current_database()") == "other"


def test_status_follows_the_server(pg: Path) -> None:
    before = command(["status", "--data-dir", pg])
    assert (before.returncode, before.stdout.split(";")[0]) == (3, "not running")
    command(["start", "--data-dir", pg])
    pid = server_pid(pg)
    during = command(["status", "--data-dir", pg])
    assert (during.returncode, f"process {pid}" in during.stdout) == (0, True)
    command(["stop", "--data-dir", pg])
    assert command(["status", "--data-dir", pg]).returncode == 3


def test_stop_may_be_said_twice(pg: Path) -> None:
    command(["start", "--data-dir", pg])
    first = command(["stop", "--data-dir", pg])
    second = command(["stop", "--data-dir", pg])
    assert (first.returncode, first.stdout) == (0, "stopped\n")
    assert (second.returncode, second.stdout) == (0, "was not running\n")


def test_url_prints_what_start_printed(pg: Path) -> None:
    started = command(["start", "--data-dir", pg])
    assert command(["url", "--data-dir", pg]).stdout == started.stdout


def test_a_refusal_is_one_sentence_without_a_traceback(pg: Path) -> None:
    refused = command(["url", "--data-dir", pg])
    assert refused.returncode == 1
    assert "There is no database" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_wrong_usage_is_told_apart_from_failure() -> None:
    assert command(["dance"]).returncode == 2
    assert command([]).returncode == 2


def test_help_names_every_verb_and_exit_code() -> None:
    told = command(["--help"]).stdout
    for word in ("start", "stop", "status", "url", "--data-dir", "3 not running"):
        assert word in told


def test_the_package_imports_neither_django_nor_the_app() -> None:
    folder = Path(embedded_postgres.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in getattr(node, "names", [])]
            module = getattr(node, "module", None)
            for name in [module] if isinstance(module, str) else names:
                assert name.split(".")[0] not in {"django", "buildqueue"}, path
