"""Renders a proved line as text for a shell. Words are quoted except for proved expansions."""

import shlex
from collections.abc import Callable, Sequence

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.line_proof import PRINT, TAKE_LISTS, ProvedPart, ProvedStep
from ebbtide.tools.commands.parts import MARK
from ebbtide.tools.lazy import regex

_STATUS = regex(r"\$\?")

WordsOf = Callable[[ProvedStep], tuple[str, Sequence[Word]]]
"""Returns the text before a command, and its words."""


def render_line(steps: Sequence[ProvedStep], words_of: WordsOf) -> str:
    """Join the commands with their original operators."""
    pieces = list[str]()
    for step in steps:
        redirections = " ".join(
            f"{one.descriptor}{one.sign} {_word_text(one.target, step, words_of)}" for one in step.command.redirections
        )
        if step.is_group:
            words = _part_text(step.parts[step.command.texts[0]], words_of)
        else:
            before, given = words_of(step)
            words = " ".join((*([before] if before else ()), *(_word_text(word, step, words_of) for word in given)))
        is_split = step.proof.name in PRINT and any(not part.is_quoted for part in step.parts.values())
        command = f"{words} {redirections}" if redirections else words
        joint = step.command.joint if pieces else ""
        pieces += [*([joint] if joint else ()), f"( set -f; {command} )" if is_split else command]
    return " ".join(pieces)


def _part_text(part: ProvedPart, words_of: WordsOf) -> str:
    lines = [render_line(line, words_of) for line in part.lines]
    return "".join(text for pair in zip(part.around, (*lines, ""), strict=True) for text in pair)


def _word_text(word: Word, step: ProvedStep, words_of: WordsOf) -> str:
    if word.globs:
        return word.text  # it has nothing to quote
    pieces, last = list[str](), 0
    for mark in MARK.finditer(word.text):
        pieces += [_quote(word, word.text[last : mark.start()]), _replacement(mark[0], step, words_of)]
        last = mark.end()
    if last == 0:
        return _quote(word, word.text) or "''"
    return "".join((*pieces, _quote(word, word.text[last:])))


def _quote(word: Word, text: str) -> str:
    parts = _STATUS.split(text) if word.has_status else [text]
    return '"$?"'.join(shlex.quote(part) if part else "" for part in parts)


def _replacement(mark: str, step: ProvedStep, words_of: WordsOf) -> str:
    part = step.parts[mark]
    text = _part_text(part, words_of)
    is_list = step.proof.name in PRINT or (part.kind == "output" and step.proof.name in TAKE_LISTS)
    is_text = part.kind in ("output", "value") and (part.is_quoted or not is_list)
    return f'"{text}"' if is_text else text
