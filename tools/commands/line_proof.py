"""Proves that every command of a line is read-only, for lines of literal commands and operators. Pure.

Other lines, with loops, groups, substitutions or variables, are only tried in a sandbox in which they can do nothing
else (`ebbtide.tools.commands.looks`).
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
    """A command of a proved line, as it will be run."""

    command: SimpleCommand
    proof: Proof


def prove_line(text: str) -> tuple[ProvedStep, ...]:
    """Return the commands of a line if each of them is read-only, or an empty tuple."""
    line, steps = parse_command_line(text), list[ProvedStep]()
    for command in () if line.problem else line.commands:
        proof = _prove_command(command, is_first=not steps)
        if proof is None:
            return ()
        steps.append(ProvedStep(command, proof))
    changes_folder = bool(steps) and steps[0].proof.name == "cd"
    return () if changes_folder and not _is_allowed_after_cd(steps) else tuple(steps)


def _is_allowed_after_cd(steps: Sequence[ProvedStep]) -> bool:
    """Whether a line that starts with `cd` also runs other commands, and none of them is git, because the folder may be
    a foreign repository."""
    return len(steps) > 1 and not any(step.proof.name.startswith("git") for step in steps)


def _prove_command(command: SimpleCommand, *, is_first: bool) -> Proof | None:
    """Return the proof for a read-only command, or None."""
    proof: Proof | None = None
    if command.texts[0] == "cd" and is_first:
        proof = _cd_proof(command)
    elif command.words[0].is_bare and "/" not in command.texts[0]:
        # Only a bare program name is accepted, because the content of a folder that the call does not ask for is
        # unknown.
        has_input = command.has_input or bool(command.redirections)
        proof = _version_proof(command) or check_read_only(command.words, has_input=has_input)
    if any(word.is_glob and not word.is_bare for word in command.words):
        return None  # it is no longer known which of its characters were quoted
    if any(word.has_status for word in command.words) and (
        proof is None or proof.name not in _STATUS_ACCEPTING_PROGRAMS
    ):
        return None
    if proof is None or not proof.is_read_only_program or proof.unproved_indices or proof.needs_input:
        return None
    proof.files += [Operand(one.target.text, len(command.words)) for one in command.redirections if one.operator == "<"]
    return proof


def _version_proof(command: SimpleCommand) -> Proof | None:
    """Prove a program that is only asked for its version."""
    is_asked = len(command.words) == 2 and command.words[1].is_plain
    return (
        Proof("version") if is_asked and command.texts[1] in VERSION_OPTIONS.get(command.texts[0], "").split() else None
    )


def _cd_proof(command: SimpleCommand) -> Proof | None:
    operands = [word for word in command.words[1:] if word.text not in ("--", "-P", "-L")]
    if (
        not command.words[0].is_bare
        or len(operands) != 1
        or not operands[0].is_plain
        or operands[0].text[:1] in "-~+"
        or ".." in operands[0].text.split("/")
    ):
        return None
    return Proof("cd", files=[Operand(operands[0].text, 1)])


def render_line(steps: Sequence[ProvedStep], step_parts: Callable[[ProvedStep], tuple[str, Sequence[Word]]]) -> str:
    """Return a proved line as text for a shell, with every word quoted. `step_parts` returns the text before a command,
    and its words."""
    pieces = list[str]()
    for step in steps:
        before, words = step_parts(step)
        redirections = (f"{one.descriptor}{one.operator} {_quoted(one.target)}" for one in step.command.redirections)
        joint = step.command.preceding_operator if pieces else ""
        pieces += [*filter(None, (joint, before)), *map(_quoted, words), *redirections]
    return " ".join(pieces)


def _quoted(word: Word) -> str:
    if word.is_glob:
        return word.text  # no character in it needs quoting
    parts = _STATUS.split(word.text) if word.has_status else [word.text]
    return '"$?"'.join(shlex.quote(part) if part else "" for part in parts) or "''"
