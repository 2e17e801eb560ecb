"""Is a RUN instruction the requirements step, and of which files?

Accepted are `pip install -r <file>` with flags that change nothing about what is
installed, and the upgrade of pip itself, joined by `&&`. A RUN with anything else is
refused whole: half of a step is worse than none.
"""

from __future__ import annotations

import shlex

from buildqueue.backends.dockerfile import Instruction
from buildqueue.exceptions import Rejected

_SWITCHES = frozenset(
    {
        *("--no-cache-dir", "--no-cache", "--upgrade", "-U", "--user", "--no-input"),
        *("-q", "-qq", "--quiet", "-v", "--verbose", "--prefer-binary"),
        *("--disable-pip-version-check", "--break-system-packages"),
        *("--no-warn-script-location", "--compile", "--no-compile"),
    }
)
_WITH_VALUE = frozenset(
    {"--progress-bar", "--root-user-action", "--timeout", "--default-timeout"}
    | {"--retries"}
)
_TOOLS = frozenset({"pip", "setuptools", "wheel"})


def requirement_files(instruction: Instruction) -> list[str]:
    """Return the files the instruction installs, as it names them."""
    for flag, value in instruction.flags:
        if flag != "mount" or "type=cache" not in value.split(","):
            raise instruction.needs_container(f"has nothing for --{flag}={value}")
    files: list[str] = []
    for words in _commands(instruction):
        files.extend(_files(instruction, _arguments(instruction, words)))
    return files


def _commands(instruction: Instruction) -> list[list[str]]:
    listed = instruction.json_form()
    if listed is not None:
        return [listed]
    try:
        lexer = shlex.shlex(instruction.rest, posix=True, punctuation_chars=True)
        lexer.commenters, lexer.whitespace_split = "", True
        words = list(lexer)
    except ValueError as error:
        raise instruction.invalid(f"cannot be read: {error}") from error
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "&&":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _arguments(instruction: Instruction, words: list[str]) -> list[str]:
    """Return what follows `pip install`, or refuse another command."""
    program = words[0].rpartition("/")[2] if words else ""
    if program in ("python", "python3") and words[1:2] == ["-m"]:
        words = words[2:]
        program = words[0] if words else ""
    if program not in ("pip", "pip3") or words[1:2] != ["install"]:
        raise instruction.needs_container()
    return words[2:]


def _files(instruction: Instruction, arguments: list[str]) -> list[str]:
    files: list[str] = []
    rest = iter(arguments)
    for word in rest:
        option, has_value, value = word.partition("=")
        if word in ("-r", "--requirement"):
            files.append(_value(instruction, word, next(rest, None)))
        elif option == "--requirement":
            files.append(_value(instruction, option, value))
        elif word.startswith("-r") and not word.startswith("--"):
            files.append(word[2:])
        elif option in _WITH_VALUE:
            value = value if has_value else _value(instruction, word, next(rest, None))
        elif word not in _SWITCHES and word not in _TOOLS:
            raise _refused(instruction, word)
    return files


def _value(instruction: Instruction, option: str, value: str | None) -> str:
    if not value:
        raise instruction.invalid(f"gives {option} no value")
    return value


def _refused(instruction: Instruction, word: str) -> Rejected:
    if word.startswith("-"):
        return instruction.needs_container(f"does not pass {word} to pip")
    return instruction.needs_container(
        f"installs requirements files only: put {word} into requirements.txt"
    )
