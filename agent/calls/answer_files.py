"""Recognises files in code blocks of an answer, written instead of an edit call: which file a block belongs to, and
the file's content with it. Pure."""

import difflib
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.agent.context.code_blocks import CodeBlock, parse_code_blocks
from ebbtide.tools.lazy import regex

MIN_FILE_SIMILARITY = 0.5
"""Similarity of a block and a file, from 0 to 1, above which they match."""
MIN_LINE_SIMILARITY = 0.5
"""Similarity above which two lines count as versions of each other."""
MIN_LINE_CHARS = 4
"""Letters and digits needed to recognise a line."""
MAX_SNIPPET_CHARS = 20_000
"""Longest block or file that is compared, in characters."""

_HEADING = regex(r"\A\s*(?:#|//|--|<!--|/\*)\s*([\w./-]+)\s*(?:-->|\*/)?[ \t]*\n+")
"""A comment in the first line that may be the file's name."""


def file_from_snippet(answer: str, files: Mapping[str, str], new: Sequence[str] = ()) -> tuple[str, str] | None:
    """The path and full new text of the file that an answer shows; None if it shows none, or it is unclear which.
    `files`: the candidate files with their content; `new`: names of files that do not exist yet."""
    pieces = [
        each for each in parse_code_blocks(answer) if not each.is_command and 0 < len(each.text) <= MAX_SNIPPET_CHARS
    ]
    found = max(_candidates(pieces, files), key=lambda each: each[0], default=None)
    if found is not None:
        return found[1], found[2]
    if len(new) == len(pieces) == 1 and not files:
        return new[0], _without_heading(pieces[0].text, new[0])
    return None


def merge_snippet(file: str, piece: str) -> str | None:
    """Replace the part of a file that a block rewrites. If the block covers only a part, the lines before and after
    it are kept. None if lines in between would be lost."""
    old, new = file.splitlines(), piece.splitlines()
    codes = difflib.SequenceMatcher(None, _plain(old), _plain(new), autojunk=False).get_opcodes()
    level = min((_indent(line) for line in new if line.strip()), default=0)
    head, tail = list[str](), list[str]()
    for number, (kind, first, last, start, end) in enumerate(codes):
        lost = [at for at in range(first, last) if kind != "equal" and _is_lost(old[at], new[start:end], level)]
        if number == len(codes) - 1 and (lost or kind == "delete"):
            tail = old[first if kind == "delete" else _with_blanks_before(old, lost[0], first) : last]
        elif number == 0 and (lost or kind == "delete"):
            rewritten = (at for at in range(lost[-1] + 1 if lost else 0, last) if start < end)
            head = old[: next((at for at in rewritten if _are_alike(old[at], new[start])), last)]
        elif lost:
            return None
    return "\n".join([*head, *new, *tail]) + ("\n" if file.endswith("\n") or not file else "")


def _is_lost(line: str, put: Sequence[str], level: int) -> bool:
    """Whether a top-level line has no similar line among its replacements."""
    return bool(line.strip()) and _indent(line) <= level and not any(_are_alike(line, each) for each in put)


def _are_alike(one: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, one.strip(), other.strip()).ratio() >= MIN_LINE_SIMILARITY


def _with_blanks_before(lines: Sequence[str], at: int, first: int) -> int:
    while at > first and not lines[at - 1].strip():
        at -= 1
    return at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _candidates(pieces: Sequence[CodeBlock], files: Mapping[str, str]) -> Iterator[tuple[float, str, str]]:
    """For each block that may be a file: the similarity, the file's path, and its new content."""
    for path, file in files.items():
        for piece in pieces:
            text = _without_heading(piece.text, path)
            if not file.strip() or len(file) > MAX_SNIPPET_CHARS:
                continue
            made = merge_snippet(file, text)
            alike = difflib.SequenceMatcher(None, file, text, autojunk=False).ratio()
            is_it = alike >= MIN_FILE_SIMILARITY or _begins_in(file, text)
            if made is not None and made != file and is_it and _has_a_line_of(file, text):
                yield alike, path, made


def _has_a_line_of(file: str, text: str) -> bool:
    """Whether the text contains a line of the file with the same indentation."""
    lines = {line.rstrip() for line in file.splitlines() if line.strip()}
    return any(line.rstrip() in lines for line in text.splitlines())


def _begins_in(file: str, text: str) -> bool:
    """Whether the text begins like a line of the file at the same indentation, so that it is a part of the file."""
    first = next((line.rstrip() for line in text.splitlines() if line.strip()), "")
    return sum(map(str.isalnum, first)) >= MIN_LINE_CHARS and any(
        _are_alike(line, first) and _indent(line) == _indent(first) for line in file.splitlines() if line.strip()
    )


def _plain(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def _without_heading(text: str, path: str) -> str:
    found = _HEADING.match(text)
    return text[found.end() :] if found is not None and path.endswith(found[1].removeprefix("./")) else text
