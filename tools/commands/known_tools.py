"""Programs for which the user can be offered a rule that covers the program's name, or the first words of a command.

A program that is not listed might run other programs or code, or write files anywhere, depending on its arguments. A
rule for its name would allow all of that, so only a rule for the whole command is offered.
"""

import re
from collections.abc import Sequence

from ebbtide.tools.commands.nested import program_index
from ebbtide.tools.commands.programs import READ_ONLY_ROWS, split_words
from ebbtide.tools.commands.tool_options import find_unsafe_argument_indices

_PROJECT_TOOLS = split_words(
    "pytest ruff mypy pyright flake8 black isort pylint eslint prettier tsc shellcheck gofmt rustfmt"
)
"""Programs that check or change the project's own files, whatever folder they run in."""
_KNOWN_COMMANDS = frozenset(
    tuple(line.split())
    for line in (
        "git add", "git commit", "git fetch", "cargo build", "cargo check", "cargo test", "cargo clippy", "cargo fmt",
        "go build", "go test", "go vet", "go fmt", "npm test", "npm ci", "npm ls", "pnpm test", "yarn test",
    )
)  # fmt: skip
_RUN_PREFIXES = {"uv run", "poetry run", "pipenv run", "pdm run", "hatch run", "rye run", "pixi run", "bundle exec"}
"""Prefixes that run the command after them, unless an option comes first."""
_MODULE_PREFIXES = {(python, "-m") for python in ("python", "python3", "py")}
_ARGUMENT_DEPENDENT_PROGRAMS = {"sed", "awk", "find", "jq", "command", "type"}
"""Programs that are read-only only with certain arguments. A rule that covers their name would allow too much."""


def rule_prefix(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words that determine what a command does: the program and its subcommand. Empty if the command is
    unknown."""
    words = tuple(command[: 2 if len(command) > 1 and command[1][:1] != "-" else 1])
    if " ".join(words) in _RUN_PREFIXES:
        inner_prefix = rule_prefix(command[2:]) if command[2:] else ()
        is_command = bool(inner_prefix) and not any(map(looks_like_path, inner_prefix)) and inner_prefix[0][:1] != "-"
        return (*words, *inner_prefix) if is_command else ()
    is_known = (
        " ".join(words) in READ_ONLY_ROWS
        or words in _KNOWN_COMMANDS
        or (words[0] in READ_ONLY_ROWS and words[0] not in _ARGUMENT_DEPENDENT_PROGRAMS)
    )
    return words if is_known or words[0] in _PROJECT_TOOLS else ()


def min_rule_words(command: Sequence[str]) -> int:
    """Return how many words a rule needs so that it includes every word that might change what the tool does. 0 if no
    word might."""
    prefix_length = 2 if " ".join(command[:2]) in _RUN_PREFIXES or tuple(command[:2]) in _MODULE_PREFIXES else 0
    unknown_indices = find_unsafe_argument_indices(command[prefix_length:])
    return prefix_length + unknown_indices[-1] + 1 if unknown_indices else 0


def looks_like_path(word: str) -> bool:
    """Whether a word looks like a file name rather than a subcommand or other keyword."""
    return "/" in word or "." in word


def is_folder_independent(command: Sequence[str]) -> bool:
    """Whether the program is known to do the same thing in every folder of a project."""
    return program_index(command) == 0 and bool(re.fullmatch(r"[\w-]+", command[0])) and command[0] in _PROJECT_TOOLS
