"""Programs of which a rule for their name, or for the first words of a command, may be offered. Data and a lookup.

Whatever is not listed may run other programs, run code or put files anywhere, as its arguments say. A permission for
how such a command begins would be one for anything, so what is offered of it is only ever the whole command.
"""

import re
from collections.abc import Sequence

from ebbtide.tools.commands.nested import behind_assignments
from ebbtide.tools.commands.programs import ROWS, set_of
from ebbtide.tools.commands.tool_options import unknown_at

_TOOLS = set_of("pytest ruff mypy pyright flake8 black isort pylint eslint prettier tsc shellcheck gofmt rustfmt")
"""They check or change the project's own files, in whatever folder of it."""
_COMMANDS = frozenset(
    tuple(line.split())
    for line in (
        "git add", "git commit", "git fetch", "cargo build", "cargo check", "cargo test", "cargo clippy", "cargo fmt",
        "go build", "go test", "go vet", "go fmt", "npm test", "npm ci", "npm ls", "pnpm test", "yarn test",
    )
)  # fmt: skip
_RUN_PREFIXES = {"uv run", "poetry run", "pipenv run", "pdm run", "hatch run", "rye run", "pixi run", "bundle exec"}
"""Those behind which the command stands that they run, where no option comes first."""
_MODULES = {(python, "-m") for python in ("python", "python3", "py")}
_SCRIPTS = {"sed", "awk", "find", "jq", "command", "type"}
"""They look as long as they are told to: a rule for their name says too little."""


def beginning_of(command: Sequence[str]) -> tuple[str, ...]:
    """As much of a command as tells what it does: the program, and what that is to do. Nothing where only all of its
    words do."""
    words = tuple(command[: 2 if len(command) > 1 and command[1][:1] != "-" else 1])
    if " ".join(words) in _RUN_PREFIXES:
        followed = beginning_of(command[2:]) if command[2:] else ()
        is_command = bool(followed) and not any(map(is_place, followed)) and followed[0][:1] != "-"
        return (*words, *followed) if is_command else ()
    is_known = " ".join(words) in ROWS or words in _COMMANDS or (words[0] in ROWS and words[0] not in _SCRIPTS)
    return words if is_known or words[0] in _TOOLS else ()


def further_from(command: Sequence[str]) -> int:
    """Up to where a rule has to name the words of a call of one of the tools, since what comes there is not known to
    leave the tool at its work: the place behind the last such word; 0 where there is none."""
    skipped = 2 if " ".join(command[:2]) in _RUN_PREFIXES or tuple(command[:2]) in _MODULES else 0
    unknown = unknown_at(command[skipped:])
    return skipped + unknown[-1] + 1 if unknown else 0


def is_place(word: str) -> bool:
    """Whether a word is the name of a file, as far as that shows, and no part of a program's own language."""
    return "/" in word or "." in word


def is_the_same_anywhere(command: Sequence[str]) -> bool:
    """Whether a program is known to do the same for its words in every folder of a project."""
    return behind_assignments(command) == 0 and bool(re.fullmatch(r"[\w-]+", command[0])) and command[0] in _TOOLS
