"""Does a source become a bundle that runs, and stay untrusted all the way?

Packages are made here with a build backend of their own, so no index is asked.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buildqueue.backends.base import BuildRequest, BuiltArtifact
from buildqueue.backends.bundles import list_bundles, read_bundle
from buildqueue.backends.confinement import Confinement
from buildqueue.backends.local import LocalBuilder
from buildqueue.exceptions import Rejected, Unavailable

# No index and no settings of this machine: a package is found in the source or not.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """
import os, zipfile
{code}
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "dependency-1.0-py3-none-any.whl"
    info = "dependency-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr("dependency.py", "seen = " + repr(dict(os.environ)))
        wheel.writestr("dependency_cli.py", "def main(): print('command runs')")
        wheel.writestr(info + "METADATA",
            "Metadata-Version: 2.1\\nName: dependency\\nVersion: 1.0\\n")
        wheel.writestr(info + "WHEEL",
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "entry_points.txt",
            "[console_scripts]\\ndependency-cli = dependency_cli:main\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""


class Bench:
    """One builder, one source, and the lines it said."""

    def __init__(self, root: Path, source: Path, confinement: Confinement) -> None:
        self.root, self.source, self.confinement = root, source, confinement
        self.lines: list[str] = []

    def build(
        self,
        *,
        version: str = "1.0.0",
        timeout: float = 300.0,
        environ: dict[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> BuiltArtifact:
        self.lines.clear()
        builder = LocalBuilder(
            self.root, self.confinement, environ=OFFLINE if environ is None else environ
        )
        request = BuildRequest(
            target_id="agent",
            version=version,
            source_dir=self.source,
            timeout_seconds=timeout,
        )
        return builder.build(request, on_line or self.lines.append)

    def run(self, artifact: BuiltArtifact) -> str:
        bundle = read_bundle(self.root, artifact.reference)
        plan = self.confinement.command(
            bundle.argv,
            workload_id="agent",
            cwd=Path(bundle.workdir),
            env=bundle.env,
            readable=[Path(bundle.folder)],
            writable=[],
        )
        done: subprocess.CompletedProcess[str] = subprocess.run(
            plan.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **plan.popen_kwargs(),
        )
        return done.stdout + done.stderr

    def leftovers(self) -> list[str]:
        target = self.root / "bundles" / "agent"
        return sorted(entry.name for entry in target.iterdir() if entry.is_dir())

    def depend(self, code: str = "") -> None:
        """Make the source require a package whose build runs the code."""
        package = self.source / "package"
        package.mkdir(exist_ok=True)
        (package / "pyproject.toml").write_text(PYPROJECT)
        (package / "backend.py").write_text(BACKEND.format(code=code))
        (self.source / "requirements.txt").write_text("./package\n")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "main.py").write_text("print('main runs')")
    return folder


@pytest.fixture
def bench(root: Path, source: Path, detected: Confinement) -> Bench:
    return Bench(root, source, detected)


@pytest.fixture
def each_bench(root: Path, source: Path, confinement: Confinement) -> Bench:
    """With every confinement that works here."""
    return Bench(root, source, confinement)


def test_a_source_becomes_a_bundle_that_runs(bench: Bench) -> None:
    artifact = bench.build()

    assert bench.run(artifact) == "main runs\n"
    assert artifact.reference == f"local:agent/1.0.0@{artifact.digest}"
    assert artifact.size_bytes > 0


def test_requirements_are_installed_and_commands_run(each_bench: Bench) -> None:
    each_bench.depend()
    (each_bench.source / "Dockerfile").write_text(
        "FROM python:3.12\nWORKDIR /app\nCOPY . .\nENV WHERE=/app/data\nEXPOSE 8000\n"
        "RUN pip install -r requirements.txt\n"
        "CMD dependency-cli && python /app/main.py && echo $WHERE"
    )

    artifact = each_bench.build()

    bundle = read_bundle(each_bench.root, artifact.reference)
    expected = f"command runs\nmain runs\n{bundle.workdir}/data\n"
    assert each_bench.run(artifact) == expected
    assert artifact.ports == (8000,)


def test_the_code_of_a_build_sees_nothing_of_the_worker(
    each_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    each_bench.depend()
    (each_bench.source / "main.py").write_text(
        "import dependency; print(dependency.seen)"
    )

    seen = each_bench.run(each_bench.build())

    assert "PIP_NO_INDEX" in seen
    assert "DATABASE_URL" not in seen


def test_what_a_build_leaves_running_is_ended(each_bench: Bench) -> None:
    """Its write into the finished bundle would come after the hand-over."""
    each_bench.depend(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)',"
        f" {str(each_bench.root)!r}], start_new_session=True,"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)"
    )

    each_bench.build()

    lines = []
    for entry in Path("/proc").iterdir():
        try:
            lines.append((entry / "cmdline").read_text())
        except OSError:
            continue
    assert not [line for line in lines if f"\0{each_bench.root}\0" in line]


def test_the_same_source_again_is_reused(bench: Bench) -> None:
    first = bench.build()
    created = read_bundle(bench.root, first.reference).created

    again = bench.build()

    assert again == first
    assert bench.lines == [f"{first.reference} is built already"]
    assert read_bundle(bench.root, first.reference).created == created


def test_another_content_replaces_the_version_and_no_other(bench: Bench) -> None:
    old = bench.build(version="1.0.0")
    other = bench.build(version="0.9.0")
    (bench.source / "main.py").write_text("print('changed')")

    new = bench.build(version="1.0.0")

    kept = {bundle.reference for bundle in list_bundles(bench.root, "agent")}
    assert kept == {other.reference, new.reference}
    assert old.digest != new.digest
    assert bench.run(new) == "changed\n"


def test_a_bundle_whose_interpreter_is_gone_is_built_again(bench: Bench) -> None:
    first = bench.build()
    Path(read_bundle(bench.root, first.reference).python).unlink()

    again = bench.build()

    assert again.reference == first.reference
    assert bench.run(again) == "main runs\n"


def test_what_a_dead_build_left_is_cleared(bench: Bench) -> None:
    artifact = bench.build()
    bundle = read_bundle(bench.root, artifact.reference)
    (Path(bundle.folder) / "bundle.json").unlink()
    (Path(bundle.folder).parent / "0.1.0-abandoned").mkdir()

    bench.build()

    assert bench.leftovers() == [Path(bundle.folder).name]


def test_an_agent_cannot_change_its_own_bundle(each_bench: Bench) -> None:
    (each_bench.source / "main.py").write_text(
        "for name in ('main.py', 'new.py', '../bundle.json', '../venv/pyvenv.cfg'):\n"
        "    try: open(name, 'w'); print('wrote', name)\n"
        "    except OSError: print('refused')"
    )

    assert each_bench.run(each_bench.build()) == "refused\n" * 4


def test_a_requirement_that_is_not_there_is_the_sources_fault(bench: Bench) -> None:
    (bench.source / "requirements.txt").write_text("no-such-package-at-all==9\n")

    with pytest.raises(Rejected, match="No matching distribution") as caught:
        bench.build()

    assert (caught.value.code, caught.value.exit_code) == ("dependency_failed", 1)
    assert bench.leftovers() == []


def test_a_build_that_the_kernel_ends_for_memory_is_told_as_such(bench: Bench) -> None:
    package = bench.source / "greedy"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    )
    # What the kernel does to a program that it ends for its memory.
    (package / "own.py").write_text("import os; os.kill(os.getpid(), 9)\n")
    (bench.source / "requirements.txt").write_text("./greedy\n")

    with pytest.raises(Rejected) as caught:
        bench.build()

    assert (caught.value.code, caught.value.exit_code) == ("out_of_memory", 1)
    assert bench.leftovers() == []


def test_an_index_that_cannot_be_reached_is_not_the_sources_fault(
    bench: Bench,
) -> None:
    (bench.source / "requirements.txt").write_text("no-such-package-at-all==9\n")
    nobody_listens = {
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "PIP_RETRIES": "1",
        "PIP_CONFIG_FILE": "/dev/null",
        "NO_PROXY": "*",
    }

    with pytest.raises(Unavailable) as caught:
        bench.build(environ=nobody_listens)

    assert caught.value.code == "package_index_unreachable"
    assert bench.leftovers() == []


def test_a_build_that_fails_leaves_the_version_before(bench: Bench) -> None:
    artifact = bench.build()
    bench.depend("raise SystemExit('broken build')")

    with pytest.raises(Rejected):
        bench.build()

    assert bench.run(artifact) == "main runs\n"


def test_a_build_that_takes_too_long_is_ended(bench: Bench) -> None:
    bench.depend("import time; time.sleep(1000)")

    with pytest.raises(Rejected) as caught:
        bench.build(timeout=5)

    assert caught.value.code == "build_timed_out"
    assert bench.leftovers() == []


def test_a_reader_that_fails_ends_the_build(bench: Bench) -> None:
    bench.depend()

    def read(line: str) -> None:
        if "installing" in line:
            raise KeyError("the lease is lost")

    with pytest.raises(KeyError, match="the lease is lost"):
        bench.build(on_line=read)

    assert bench.leftovers() == []


def test_a_bottomless_build_is_refused_and_cleared(bench: Bench) -> None:
    bench.depend(
        "fd = os.open('.', os.O_RDONLY)\n"
        "for _ in range(1500):\n"
        "    os.mkdir('d', dir_fd=fd); fd, old = os.open('d', 0, dir_fd=fd), fd\n"
        "    os.close(old)"
    )

    with pytest.raises(Rejected, match=r"nested|pip could not"):
        bench.build()

    assert bench.leftovers() == []


def test_removal_makes_it_absent_and_can_be_repeated(bench: Bench) -> None:
    artifact = bench.build()
    builder = LocalBuilder(bench.root, bench.confinement)
    assert builder.exists(artifact.reference)

    builder.remove(artifact.reference)
    builder.remove(artifact.reference)

    assert not builder.exists(artifact.reference)
    assert bench.leftovers() == []


def test_a_source_is_validated_without_building(bench: Bench) -> None:
    builder = LocalBuilder(bench.root, bench.confinement)
    builder.validate_source(bench.source)
    (bench.source / "Dockerfile").write_text("FROM node:20\nCMD x")

    with pytest.raises(Rejected, match="line 1: FROM node:20"):
        builder.validate_source(bench.source)

    assert not (bench.root / "bundles").exists()


def test_the_source_itself_is_never_changed(bench: Bench) -> None:
    bench.depend("open('written-by-the-build', 'w')")
    before = sorted(bench.source.rglob("*"))

    bench.build()

    assert sorted(bench.source.rglob("*")) == before
