"""Checks that every command in a line is read-only, for lines of literal commands and operators.

Other lines, with loops, groups, substitutions or variables, are only tried in a read-only sandbox
(`ebbtide.tools.commands.looks`).
"""

import shlex
from collections.abc import Callable, Sequence

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.programs import VERSION_OPTIONS
from ebbtide.tools.commands.proof import check_read_only
from ebbtide.tools.commands.scripts import Operand, Proof
from ebbtide.tools.lazy import dataclass, regex

_STATUS_ACCEPTING_PROGRAMS = {"echo", "printf", "test"}
_STATUS = regex(r"\$\?")


@dataclass(frozen=True, slots=True)
class ProvedStep:
    """A command of a line known to be read-only, as it will be run."""

    command: SimpleCommand
    proof: Proof


def prove_line(text: str) -> tuple[ProvedStep, ...]:
    """Return the commands of a line if all of them are read-only. Empty otherwise."""
    line, steps = parse_command_line(text), list[ProvedStep]()
    for command in () if line.problem else line.commands:
        proof = _prove_command(command, is_first=not steps)
        if proof is None:
            return ()
        steps.append(ProvedStep(command, proof))
    changes_folder = bool(steps) and steps[0].proof.name == "cd"
    return () if changes_folder and not _is_allowed_after_cd(steps) else tuple(steps)


def _is_allowed_after_cd(steps: Sequence[ProvedStep]) -> bool:
    """Check a line that starts with `cd`: it must also run other commands. Git is not allowed, because the folder might
    be someone else's repository."""
    return len(steps) > 1 and not any(step.proof.name.startswith("git") for step in steps)


def _prove_command(command: SimpleCommand, *, is_first: bool) -> Proof | None:
    """Check that a command is read-only. None if that is not known."""
    proof: Proof | None = None
    if command.texts[0] == "cd" and is_first:
        proof = _cd_proof(command)
    elif command.words[0].is_unquoted and "/" not in command.texts[0]:
        # The program's name must not include a folder, because the folder could contain any program.
        has_input = command.has_input or bool(command.redirections)
        proof = _version_proof(command) or check_read_only(command.words, has_input=has_input)
    if any(word.is_glob and not word.is_unquoted for word in command.words):
        return None  # the word no longer shows which of its characters were quoted
    if any(word.has_exit_status for word in command.words) and (
        proof is None or proof.name not in _STATUS_ACCEPTING_PROGRAMS
    ):
        return None
    if proof is None or not proof.is_read_only_program or proof.unproved_indices or proof.needs_input:
        return None
    proof.files += [
        Operand(redirection.target.text, len(command.words))
        for redirection in command.redirections
        if redirection.operator == "<"
    ]
    return proof


def _version_proof(command: SimpleCommand) -> Proof | None:
    """Accept a program that is only asked for its version."""
    has_one_argument = len(command.words) == 2 and command.words[1].is_plain
    return (
        Proof("version")
        if has_one_argument and command.texts[1] in VERSION_OPTIONS.get(command.texts[0], "").split()
        else None
    )


def _cd_proof(command: SimpleCommand) -> Proof | None:
    operands = [word for word in command.words[1:] if word.text not in ("--", "-P", "-L")]
    if (
        not command.words[0].is_unquoted
        or len(operands) != 1
        or not operands[0].is_plain
        or operands[0].text[:1] in "-~+"
        or ".." in operands[0].text.split("/")
    ):
        return None
    return Proof("cd", files=[Operand(operands[0].text, 1)])


def render_line(steps: Sequence[ProvedStep], get_step_parts: Callable[[ProvedStep], tuple[str, Sequence[Word]]]) -> str:
    """Format a checked line for a shell, with every word quoted. `get_step_parts` returns a command's words and the
    text to put before them."""
    chunks = list[str]()
    for step in steps:
        prefix, words = get_step_parts(step)
        redirections = (
            f"{redirection.descriptor}{redirection.operator} {_quoted(redirection.target)}"
            for redirection in step.command.redirections
        )
        operator = step.command.preceding_operator if chunks else ""
        chunks += [*filter(None, (operator, prefix)), *map(_quoted, words), *redirections]
    return " ".join(chunks)


def _quoted(word: Word) -> str:
    if word.is_glob:
        return word.text  # no character in it needs quoting
    parts = _STATUS.split(word.text) if word.has_exit_status else [word.text]
    return '"$?"'.join(shlex.quote(part) if part else "" for part in parts) or "''"
