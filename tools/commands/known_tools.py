"""Programs for which a permission rule by name, or by the first words of a command, may be offered.

Programs not listed may run other programs or code, or write files anywhere, depending on their arguments. Allowing such
a prefix would allow anything, so only the whole command is offered.
"""

import re
from collections.abc import Sequence

from ebbtide.tools.commands.nested import behind_assignments
from ebbtide.tools.commands.programs import ROWS, set_of
from ebbtide.tools.commands.tool_options import unknown_at

_TOOLS = set_of("pytest ruff mypy pyright flake8 black isort pylint eslint prettier tsc shellcheck gofmt rustfmt")
"""Programs that check or change the project's own files, wherever they are run in it."""
_COMMANDS = frozenset(
    tuple(line.split())
    for line in (
        "git add", "git commit", "git fetch", "cargo build", "cargo check", "cargo test", "cargo clippy", "cargo fmt",
        "go build", "go test", "go vet", "go fmt", "npm test", "npm ci", "npm ls", "pnpm test", "yarn test",
    )
)  # fmt: skip
_RUN_PREFIXES = {"uv run", "poetry run", "pipenv run", "pdm run", "hatch run", "rye run", "pixi run", "bundle exec"}
"""Prefixes that run the command after them, if no option comes first."""
_MODULES = {(python, "-m") for python in ("python", "python3", "py")}
_SCRIPTS = {"sed", "awk", "find", "jq", "command", "type"}
"""Programs that are read-only depending on their arguments: a rule by name would say too little."""


def beginning_of(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words that identify what a command does: the program and its subcommand. Empty if that takes all
    words."""
    words = tuple(command[: 2 if len(command) > 1 and command[1][:1] != "-" else 1])
    if " ".join(words) in _RUN_PREFIXES:
        followed = beginning_of(command[2:]) if command[2:] else ()
        is_command = bool(followed) and not any(map(is_place, followed)) and followed[0][:1] != "-"
        return (*words, *followed) if is_command else ()
    is_known = " ".join(words) in ROWS or words in _COMMANDS or (words[0] in ROWS and words[0] not in _SCRIPTS)
    return words if is_known or words[0] in _TOOLS else ()


def further_from(command: Sequence[str]) -> int:
    """Return how many words a rule must name, since a word among them may make the tool do something else: the index
    after the last such word, or 0 if there is none."""
    skipped = 2 if " ".join(command[:2]) in _RUN_PREFIXES or tuple(command[:2]) in _MODULES else 0
    unknown = unknown_at(command[skipped:])
    return skipped + unknown[-1] + 1 if unknown else 0


def is_place(word: str) -> bool:
    """Whether a word looks like a file name rather than part of a program's own language."""
    return "/" in word or "." in word


def is_the_same_anywhere(command: Sequence[str]) -> bool:
    """Whether the program is known to do the same in every folder of a project."""
    return behind_assignments(command) == 0 and bool(re.fullmatch(r"[\w-]+", command[0])) and command[0] in _TOOLS
