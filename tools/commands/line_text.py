"""A proved line as the text that a shell runs: each word quoted, but for what it was proved that the shell replaces."""

import shlex
from collections.abc import Callable, Sequence

from tools.commands.command_line import Word
from tools.commands.line_proof import PRINT, TAKE_LISTS, ProvedPart, Step
from tools.commands.parts import MARK
from tools.lazy import regex

_STATUS = regex(r"\$\?")

Written = Callable[[Step], tuple[str, Sequence[Word]]]
"""What stands before a command, and its words."""


def as_text(steps: Sequence[Step], written: Written) -> str:
    """The commands joined as they were."""
    pieces = list[str]()
    for step in steps:
        redirections = " ".join(
            f"{one.descriptor}{one.sign} {_word(one.target, step, written)}" for one in step.command.redirections
        )
        if step.is_group:
            words = _part(step.parts[step.command.texts[0]], written)
        else:
            before, given = written(step)
            words = " ".join((*([before] if before else ()), *(_word(word, step, written) for word in given)))
        is_split = step.proof.name in PRINT and any(not part.is_quoted for part in step.parts.values())
        command = f"{words} {redirections}" if redirections else words
        joint = step.command.joint if pieces else ""
        pieces += [*([joint] if joint else ()), f"( set -f; {command} )" if is_split else command]
    return " ".join(pieces)


def _part(part: ProvedPart, written: Written) -> str:
    lines = [as_text(line, written) for line in part.lines]
    return "".join(text for pair in zip(part.around, (*lines, ""), strict=True) for text in pair)


def _word(word: Word, step: Step, written: Written) -> str:
    if word.globs:
        return word.text  # there is nothing to quote in it
    pieces, last = list[str](), 0
    for mark in MARK.finditer(word.text):
        pieces += [_quoted(word, word.text[last : mark.start()]), _replaced(mark[0], step, written)]
        last = mark.end()
    if last == 0:
        return _quoted(word, word.text) or "''"
    return "".join((*pieces, _quoted(word, word.text[last:])))


def _quoted(word: Word, text: str) -> str:
    parts = _STATUS.split(text) if word.has_status else [text]
    return '"$?"'.join(shlex.quote(part) if part else "" for part in parts)


def _replaced(mark: str, step: Step, written: Written) -> str:
    part = step.parts[mark]
    text = _part(part, written)
    is_list = step.proof.name in PRINT or (part.kind == "output" and step.proof.name in TAKE_LISTS)
    is_text = part.kind in ("output", "value") and (part.is_quoted or not is_list)
    return f'"{text}"' if is_text else text
