"""What of a source tree can the local backend run, and how?

A Dockerfile is honored where it describes a Python program whose only build step is
`pip install -r`; everything else is refused with its line, never skipped in silence.
Without a Dockerfile the entry point decides. No file of the source is executed here.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import ClassVar

from buildqueue.backends.contextcopy import ContextCopies
from buildqueue.backends.dockerfile import (
    MAX_BYTES,
    Instruction,
    expand,
    read_instructions,
)
from buildqueue.backends.pipinstall import requirement_files
from buildqueue.exceptions import Rejected

ENTRY_POINTS = ("main.py", "src/main.py", "src/__main__.py", "__main__.py")
REQUIREMENTS = "requirements.txt"
MOST_ENV = 512 * 1024  # characters: a process with much more cannot be started

_ANY_ENTRY_POINT = ", ".join(ENTRY_POINTS)

_PYTHON_IMAGE = re.compile(
    r"(?:docker\.io/)?(?:library/)?python(?::(?P<tag>[A-Za-z0-9._-]+))?(?:@sha256:\w+)?"
)
_VERSION = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlan:
    """How to install and start a source tree.

    `root` is the path the source has in the image: a path below it that the command or
    a variable names is to be read as one below the bundle's copy.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "."  # relative to the source
    ports: tuple[int, ...] = ()
    requirements: tuple[str, ...] = ()  # relative to the source
    root: str = "/"
    notes: tuple[str, ...] = ()  # what the owner should know, for the build log


def plan_source(source: Path) -> LocalPlan:
    """Return the plan for the tree, or refuse with the reason and the line."""
    dockerfile = source / "Dockerfile"
    inside = dockerfile.resolve().is_relative_to(source.resolve())
    if dockerfile.is_file() and inside:
        with dockerfile.open("rb") as stream:
            return parse_dockerfile(stream.read(MAX_BYTES + 1), source)
    argv = _entry_point(source)
    if argv is None:
        raise Rejected(
            "no_dockerfile",
            f"the source has no Dockerfile and none of {_ANY_ENTRY_POINT}; add one",
        )
    return LocalPlan(argv=argv, requirements=_requirements(source))


def parse_dockerfile(content: bytes, source: Path) -> LocalPlan:
    """Return the plan the Dockerfile describes for the tree it stands in."""
    reading = _Reading(source=source, copies=ContextCopies(source))
    for instruction in read_instructions(content):
        reading.take(instruction)
    return reading.plan()


def _entry_point(source: Path) -> tuple[str, ...] | None:
    for name in ENTRY_POINTS:
        if (source / name).is_file():
            return ("python", name)
    return None


def _requirements(source: Path) -> tuple[str, ...]:
    return (REQUIREMENTS,) if (source / REQUIREMENTS).is_file() else ()


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The state of an image while its Dockerfile is read."""

    source: Path
    has_base: bool = False
    arguments: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    copies: ContextCopies
    command: list[str] | None = None
    command_is_shell: bool = False
    entrypoint: list[str] | None = None
    entrypoint_is_shell: bool = False
    ports: list[int] = field(default_factory=list)
    requirements: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    IGNORED: ClassVar = {"LABEL", "MAINTAINER", "STOPSIGNAL"}
    NOTED: ClassVar = {
        "USER": "the local backend always runs as an unprivileged user of its own",
        "HEALTHCHECK": "the local backend checks the port itself",
    }

    def take(self, instruction: Instruction) -> None:
        """Apply one instruction, or refuse it."""
        name = instruction.name
        if not self.has_base and name not in ("FROM", "ARG"):
            raise instruction.invalid("comes before FROM")
        if name in self.IGNORED:
            return
        if name in self.NOTED:
            self.notes.append(f"{instruction.place}: {name}: {self.NOTED[name]}")
            return
        if not instruction.rest:
            raise instruction.invalid("says nothing")
        handlers: dict[str, Callable[[Instruction], None]] = {
            "FROM": self._from,
            "ARG": self._arg,
            "ENV": self._env,
            "WORKDIR": self._workdir,
            "EXPOSE": self._expose,
            "COPY": self._copy,
            "ADD": self._copy,
            "RUN": self._run,
            "CMD": self._cmd,
            "ENTRYPOINT": self._entrypoint,
        }
        if name not in handlers:
            raise instruction.needs_container()
        handlers[name](instruction)

    def plan(self) -> LocalPlan:
        """Return the plan once all instructions are taken."""
        if not self.has_base:
            raise Rejected("dockerfile_invalid", "the Dockerfile has no FROM")
        root = self.copies.root or self.workdir
        return LocalPlan(
            argv=self._argv(),
            env=self.env,
            workdir=self._relative_workdir(root),
            ports=tuple(dict.fromkeys(self.ports)),
            requirements=tuple(dict.fromkeys(self.requirements)),
            root=root,
            notes=tuple(self.notes),
        )

    def _argv(self) -> tuple[str, ...]:
        if self.entrypoint is not None and self.entrypoint_is_shell:
            # A shell takes no arguments: the container ignores CMD here, too.
            return tuple(self.entrypoint)
        argv = [*(self.entrypoint or []), *(self.command or [])]
        if argv:
            return tuple(argv)
        found = _entry_point(self.source)
        if found is None:
            raise Rejected(
                "no_entry_point",
                "the Dockerfile has neither CMD nor ENTRYPOINT, and the source none of "
                f"{_ANY_ENTRY_POINT}; add a CMD",
            )
        self.notes.append(
            "the Dockerfile has no CMD: the entry point of the source runs"
        )
        return found

    def _relative_workdir(self, root: str) -> str:
        workdir = PurePosixPath(self.workdir)
        if workdir.is_relative_to(root):
            return workdir.relative_to(root).as_posix()
        if self.workdir == "/":
            self.notes.append(f"no WORKDIR: the program starts in {root}")
            return "."
        raise Rejected(
            "needs_container_backend",
            f"the Dockerfile's WORKDIR {self.workdir} is outside of {root}, where the "
            "source is copied; the local backend starts inside of the source",
        )

    def _expand(self, text: str) -> str:
        return expand(text, ChainMap(self.env, self.arguments))

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.workdir, path))

    def _from(self, instruction: Instruction) -> None:
        if self.has_base:
            raise instruction.needs_container("has one stage only")
        words = self._expand(instruction.rest).split()
        if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
            raise instruction.invalid("must be FROM image, or FROM image AS name")
        image = _PYTHON_IMAGE.fullmatch(words[0])
        if image is None:
            raise instruction.needs_container("takes the images of python only")
        version = _VERSION.match(image["tag"] or "")
        if version and version[0].split(".")[0] != "3":
            raise instruction.needs_container("has Python 3 only")
        if version:
            self.notes.append(
                f"{instruction.place}: {words[0]}: the local backend runs the "
                "host's Python, whatever version the image names"
            )
        self.has_base = True

    def _arg(self, instruction: Instruction) -> None:
        for word in instruction.words():
            name, _, default = word.partition("=")
            self.arguments[name] = self._expand(default)

    def _env(self, instruction: Instruction) -> None:
        words = instruction.words()
        if "=" in words[0]:
            pairs = [word.partition("=")[::2] for word in words]
            if any("=" not in word for word in words):
                raise instruction.invalid("must be NAME=value for each name")
        else:
            name, *value = instruction.rest.split(None, 1)
            pairs = [(name, value[0] if value else "")]
        # All values of one instruction see the variables before it, not each other.
        values = {name: self._expand(value) for name, value in pairs}
        if values.pop("PATH", None) is not None:
            self.notes.append(
                f"{instruction.place}: PATH leads into the virtual environment instead"
            )
        self.env.update(values)
        if sum(map(len, self.env.values())) > MOST_ENV:
            raise instruction.invalid("makes the environment larger than a program's")

    def _workdir(self, instruction: Instruction) -> None:
        words = instruction.json_form() or [" ".join(instruction.words())]
        self.workdir = self._absolute(self._expand(words[0]))
        self.copies.make_folder(self.workdir)

    def _expose(self, instruction: Instruction) -> None:
        for word in self._expand(instruction.rest).split():
            match = re.fullmatch(r"(\d{1,5})(?:/(tcp|udp))?", word, re.IGNORECASE)
            if match is None or not 0 < int(match[1]) < 65536:
                raise instruction.invalid(f"names {word!r}, which is no port")
            if (match[2] or "tcp").lower() == "tcp":
                self.ports.append(int(match[1]))

    def _copy(self, instruction: Instruction) -> None:
        words = instruction.json_form() or instruction.words()
        self.copies.take(instruction, [self._expand(w) for w in words], self.workdir)

    def _run(self, instruction: Instruction) -> None:
        for name in requirement_files(instruction):
            path = self._absolute(self._expand(name))
            found = self.copies.in_source(path, self.workdir)
            if found is None or not os.path.isfile(self.source / found):
                raise instruction.invalid(f"names {name}, which is not in the source")
            self.requirements.append(found)

    def _cmd(self, instruction: Instruction) -> None:
        self.command, self.command_is_shell = self._program(instruction)

    def _entrypoint(self, instruction: Instruction) -> None:
        self.entrypoint, self.entrypoint_is_shell = self._program(instruction)

    def _program(self, instruction: Instruction) -> tuple[list[str], bool]:
        listed = instruction.json_form()
        if listed is not None:
            return listed, False
        return ["/bin/sh", "-c", instruction.rest], True
