"""What does the local backend honor, and does it refuse the rest with the line?"""

from __future__ import annotations

from pathlib import Path

import pytest

from buildqueue.backends.localplan import LocalPlan, plan_source
from buildqueue.exceptions import Rejected

REQUIREMENTS = ("requirements.txt",)
TYPICAL = """\
FROM python:3.12-slim
LABEL a=b
WORKDIR /app
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY . .
ENV PORT=8000 HOME_PAGE="http://localhost:$NO"
EXPOSE 8000
USER nobody
HEALTHCHECK CMD curl localhost
CMD ["python", "main.py"]
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in ("main.py", "requirements.txt", "src/tool.py", "req/prod.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def plan(source: Path, text: str) -> LocalPlan:
    (source / "Dockerfile").write_text(text)
    return plan_source(source)


def lines(*extra: str) -> str:
    return "\n".join(("FROM python", "WORKDIR /app", *extra))


def test_a_typical_dockerfile_is_honored(source: Path) -> None:
    found = plan(source, TYPICAL)

    assert found.argv == ("python", "main.py")
    assert found.env == {"PORT": "8000", "HOME_PAGE": "http://localhost:"}
    assert (found.workdir, found.root, found.ports) == (".", "/app", (8000,))
    assert found.requirements == ("requirements.txt",)
    assert [note.split(":")[0] for note in found.notes] == [
        "Dockerfile line 1",
        "Dockerfile line 9",
        "Dockerfile line 10",
    ]


@pytest.mark.parametrize(
    ("program", "argv"),
    [
        ('CMD ["python", "a.py"]', ("python", "a.py")),
        ("CMD python a.py && true", ("/bin/sh", "-c", "python a.py && true")),
        ('ENTRYPOINT ["python"]\nCMD ["a.py"]', ("python", "a.py")),
        ('ENTRYPOINT ["p"]\nCMD a b', ("p", "/bin/sh", "-c", "a b")),
        ('ENTRYPOINT a\nCMD ["b"]', ("/bin/sh", "-c", "a")),
        ('CMD ["a"]\nCMD ["b"]', ("b",)),
        ('CMD ["$A"]', ("$A",)),
        ("EXPOSE 1", ("python", "main.py")),
    ],
)
def test_command_and_entry_point_combine_as_in_a_container(
    program: str, argv: tuple[str, ...], source: Path
) -> None:
    assert plan(source, lines(program)).argv == argv


@pytest.mark.parametrize(
    "image",
    [
        "python",
        "python:3",
        "python:3.13-slim-bookworm",
        "docker.io/library/python:3.11-alpine",
        "library/python AS build",
        "--platform=linux/amd64 python:latest",
        "python:3.12@sha256:" + "a" * 64,
    ],
)
def test_images_of_python_are_taken(image: str, source: Path) -> None:
    assert plan(source, f"FROM {image}\nCMD x").argv[0] == "/bin/sh"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("ENV A=1 B=2", {"A": "1", "B": "2"}),
        ("ENV A a long value", {"A": "a long value"}),
        ('ENV A="x y" B=z\\ w', {"A": "x y", "B": "z w"}),
        ("ENV A=1\nENV B=$A/${A}", {"A": "1", "B": "1/1"}),
        ("ENV A=1\nENV A=2 B=$A", {"A": "2", "B": "1"}),
        ("ARG V=3\nENV B=$V", {"B": "3"}),
        ("ENV PATH=/x:$PATH A=1", {"A": "1"}),
    ],
)
def test_variables_are_set(env: str, expected: dict[str, str], source: Path) -> None:
    assert plan(source, lines(env, "CMD x")).env == expected


@pytest.mark.parametrize(
    ("expose", "ports"),
    [
        ("EXPOSE 80 81/tcp 82/udp", (80, 81)),
        ("ENV P=99\nEXPOSE $P\nEXPOSE 99", (99,)),
    ],
)
def test_ports_are_read(expose: str, ports: tuple[int, ...], source: Path) -> None:
    assert plan(source, lines(expose, "CMD x")).ports == ports


@pytest.mark.parametrize(
    ("copies", "root"),
    [
        ("COPY . .", "/app"),
        ("COPY . /srv/x\nWORKDIR /srv/x", "/srv/x"),
        ("COPY ./ /app/", "/app"),
        ("COPY --chown=1:1 . .", "/app"),
        ('COPY [".", "."]', "/app"),
        ("ADD . .", "/app"),
        ("COPY main.py requirements.txt ./", "/app"),
        ("COPY *.py ./", "/app"),
        ("COPY main.py /app", "/app"),
        ("COPY main.py /app/main.py", "/app"),
        ("COPY src ./src\nCOPY main.py .", "/app"),
        ("COPY src/tool.py src/", "/app"),
        ("COPY requirements.txt /tmp/r.txt\nCOPY . .", "/app"),
    ],
)
def test_copies_that_keep_the_layout_are_taken(
    copies: str, root: str, source: Path
) -> None:
    assert plan(source, lines(copies, "CMD x")).root == root


def test_the_working_directory_may_lie_inside_the_source(source: Path) -> None:
    found = plan(source, lines("COPY . .", "WORKDIR src", "CMD python tool.py"))

    assert (found.root, found.workdir) == ("/app", "src")


def test_without_a_working_directory_it_starts_where_the_source_is(
    source: Path,
) -> None:
    found = plan(source, "FROM python\nCOPY . /app\nCMD python /app/main.py")

    assert (found.root, found.workdir) == ("/app", ".")
    assert "no WORKDIR" in found.notes[0]


@pytest.mark.parametrize(
    ("run", "files"),
    [
        ("pip install -r requirements.txt", REQUIREMENTS),
        ("pip3 install --no-cache-dir -U -rrequirements.txt", REQUIREMENTS),
        ("python -m pip install --requirement=req/prod.txt", ("req/prod.txt",)),
        ("python3 -m pip install -r /app/requirements.txt", REQUIREMENTS),
        ("pip install -U pip && pip install -r requirements.txt", REQUIREMENTS),
        ("pip install --timeout 9 --retries=3 -r ./requirements.txt", REQUIREMENTS),
        ("pip install -r req/prod.txt -r req/prod.txt", ("req/prod.txt",)),
        ("--mount=type=cache,target=/c pip install -r requirements.txt", REQUIREMENTS),
        ('["pip", "install", "-r", "requirements.txt"]', REQUIREMENTS),
        ("pip install --upgrade pip setuptools wheel", ()),
    ],
)
def test_the_requirements_step_is_recognized(
    run: str, files: tuple[str, ...], source: Path
) -> None:
    assert plan(source, lines("COPY . .", f"RUN {run}", "CMD x")).requirements == files


def test_requirements_copied_elsewhere_are_found(source: Path) -> None:
    text = lines(
        "COPY requirements.txt /tmp/", "RUN pip install -r /tmp/requirements.txt"
    )

    assert plan(source, text).requirements == ("requirements.txt",)


@pytest.mark.parametrize(
    "instruction",
    [
        "RUN apt-get update",
        "RUN pip install flask",
        "RUN pip install -r requirements.txt && rm -rf /",
        "RUN pip install -r requirements.txt; id",
        "RUN pip install -r requirements.txt | tee log",
        "RUN pip install -r requirements.txt || true",
        "RUN pip install --index-url http://x -r requirements.txt",
        "RUN pip install .",
        "RUN pip install git+https://example.org/x",
        "RUN pip download -r requirements.txt",
        "RUN X=1 pip install -r requirements.txt",
        "RUN --mount=type=secret,id=x pip install -r requirements.txt",
        "RUN --mount=type=cache,target=/c --network=none pip install -U pip",
        "RUN npm ci",
        "FROM python AS second",
        "COPY --from=build /a /b",
        "COPY main.py other.py",
        "COPY src/ .",
        "COPY . /elsewhere\nCOPY main.py /app/",
        "COPY * ./",
        "COPY **/*.py ./",
        "ADD https://example.org/x.tar.gz /x",
        "ADD git@example.org:x /x",
        "ADD source.tar.gz .",
        "VOLUME /x",
        'SHELL ["/bin/bash", "-c"]',
        "ONBUILD RUN x",
        "NONSENSE x",
    ],
)
def test_everything_else_is_refused_with_its_line(
    instruction: str, source: Path
) -> None:
    line = 3 + instruction.count("\n")

    with pytest.raises(Rejected, match=f"^Dockerfile line {line}: ") as caught:
        plan(source, lines(instruction, "CMD x"))

    assert caught.value.code == "needs_container_backend"
    assert "the local backend" in str(caught.value)


@pytest.mark.parametrize(
    "image", ["node:20", "ubuntu", "python:2.7", "me/python", "evil.io/python", "$X"]
)
def test_other_images_are_refused(image: str, source: Path) -> None:
    with pytest.raises(Rejected, match="line 1: FROM") as caught:
        plan(source, f"FROM {image}\nCMD x")

    assert caught.value.code in ("needs_container_backend", "dockerfile_invalid")


@pytest.mark.parametrize(
    "text",
    [
        "CMD x",
        "",
        lines("COPY x"),
        lines("COPY absent.py ."),
        lines("COPY ../x ."),
        lines("COPY *.absent ."),
        lines("EXPOSE http"),
        lines("EXPOSE 70000"),
        lines("ENV A=1 B"),
        lines("RUN pip install -r absent.txt"),
        lines("RUN pip install -r"),
        lines("RUN pip install -r /etc/passwd"),
        lines("CMD"),
        "FROM python as a b",
    ],
)
def test_what_fails_in_a_container_fails_here(text: str, source: Path) -> None:
    with pytest.raises(Rejected) as caught:
        plan(source, text)

    assert caught.value.code == "dockerfile_invalid"


def test_a_working_directory_outside_of_the_source_is_refused(source: Path) -> None:
    with pytest.raises(Rejected, match="WORKDIR /b is outside of /a"):
        plan(source, "FROM python\nCOPY . /a\nWORKDIR /b\nCMD x")


@pytest.mark.parametrize(
    "name", ["main.py", "src/main.py", "src/__main__.py", "__main__.py"]
)
def test_without_a_dockerfile_the_entry_point_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")

    assert plan_source(tmp_path).argv == ("python", name)


def test_main_comes_before_the_other_entry_points(source: Path) -> None:
    (source / "__main__.py").write_text("")

    assert plan_source(source).argv == ("python", "main.py")
    assert plan_source(source).requirements == ("requirements.txt",)


def test_a_source_with_nothing_to_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("")

    with pytest.raises(Rejected, match=r"main\.py") as caught:
        plan_source(tmp_path)

    assert caught.value.code == "no_dockerfile"


def test_a_dockerfile_that_says_not_what_to_start_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.12\nWORKDIR /app\nCOPY . .\n")

    with pytest.raises(Rejected, match="CMD") as caught:
        plan_source(tmp_path)

    assert caught.value.code == "no_entry_point"


def test_a_dockerfile_that_links_out_of_the_source_is_not_read(
    source: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "Dockerfile"
    other.write_text("FROM python\nCMD secret")
    (source / "Dockerfile").symlink_to(other)

    assert plan_source(source).argv == ("python", "main.py")


@pytest.mark.parametrize(
    "instruction", ["COPY {} .", "COPY {}/* .", "RUN pip install -r {}"]
)
def test_a_name_too_long_for_any_file_is_not_in_the_source(
    source: Path, instruction: str
) -> None:
    with pytest.raises(Rejected, match="Dockerfile line 3: ") as caught:
        plan(source, lines(instruction.format("a" * 300)))

    assert caught.value.code == "dockerfile_invalid"
