"""Recognises files in code blocks of an answer that a model wrote instead of an edit call: which file a block belongs
to, and the file's new content. Pure."""

import difflib
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.agent.prompt.code_blocks import CodeBlock, parse_code_blocks
from ebbtide.tools.lazy import regex

MIN_FILE_SIMILARITY = 0.5
"""Minimum similarity of a code block and a file that match, from 0 to 1."""
MIN_LINE_SIMILARITY = 0.5
"""Minimum similarity of two lines that count as versions of each other."""
MIN_LINE_CHARS = 4
"""Minimum number of letters and digits in a line that identifies a file."""
MAX_SNIPPET_CHARS = 20_000
"""Maximum length of a block or file that is compared, in characters."""
MAX_LINE_PAIRS = 5_000
"""Maximum number of pairs of old and new lines that are compared; if there are more, the block is too different from
the file."""

_HEADING = regex(r"\A\s*(?:#|//|--|<!--|/\*)\s*([\w./-]+)\s*(?:-->|\*/)?[ \t]*\n+")
"""A comment in the first line that may contain the file name."""


def file_from_snippet(answer: str, files: Mapping[str, str], new_names: Sequence[str] = ()) -> tuple[str, str] | None:
    """Return the path and full new text of the file that an answer shows; None if it shows none, or if the file is
    ambiguous. `files` maps the paths of candidate files to their content. The last argument names files that do not
    exist yet."""
    blocks = [
        each for each in parse_code_blocks(answer) if not each.is_command and 0 < len(each.text) <= MAX_SNIPPET_CHARS
    ]
    best = max(_candidates(blocks, files), key=lambda each: each[0], default=None)
    if best is not None:
        return best[1], best[2]
    if len(new_names) == len(blocks) == 1 and not files:
        return new_names[0], _without_heading(blocks[0].text, new_names[0])
    return None


def merge_snippet(file: str, snippet: str) -> str | None:
    """Replace the part of a file that a block rewrites, and keep the lines before and after it. Return None if other
    lines would be lost, or if too many lines differ to compare them all."""
    old, new = file.splitlines(), snippet.splitlines()
    opcodes = difflib.SequenceMatcher(None, _without_trailing_blanks(old), _without_trailing_blanks(new)).get_opcodes()
    base_indent = min((_indent(line) for line in new if line.strip()), default=0)
    head, tail, pairs = list[str](), list[str](), 0
    for number, (kind, first, last, start, end) in enumerate(opcodes):
        changed = range(first, last) if kind != "equal" else ()
        top_level = [at for at in changed if old[at].strip() and _indent(old[at]) <= base_indent]
        pairs += len(top_level) * (end - start)
        if pairs > MAX_LINE_PAIRS:
            return None
        lost = [at for at in top_level if not any(_are_alike(old[at], each) for each in new[start:end])]
        if number == len(opcodes) - 1 and (lost or kind == "delete"):
            tail = old[first if kind == "delete" else _first_blank_before(old, lost[0], first) : last]
        elif number == 0 and (lost or kind == "delete"):
            rewritten = (at for at in range(lost[-1] + 1 if lost else 0, last) if start < end)
            head = old[: next((at for at in rewritten if _are_alike(old[at], new[start])), last)]
        elif lost:
            return None
    return "\n".join([*head, *new, *tail]) + ("\n" if file.endswith("\n") or not file else "")


def _are_alike(one: str, other: str) -> bool:
    lines = difflib.SequenceMatcher(None, one.strip(), other.strip())
    bounds = (lines.real_quick_ratio, lines.quick_ratio, lines.ratio)  # upper bounds first: `ratio` is slow
    return all(ratio() >= MIN_LINE_SIMILARITY for ratio in bounds)


def _first_blank_before(lines: Sequence[str], at: int, first: int) -> int:
    while at > first and not lines[at - 1].strip():
        at -= 1
    return at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _candidates(blocks: Sequence[CodeBlock], files: Mapping[str, str]) -> Iterator[tuple[float, str, str]]:
    """Yield, for each block that may belong to a file, the similarity, the file's path, and its new content."""
    for path, file in files.items():
        for block in blocks:
            text = _without_heading(block.text, path)
            if not file.strip() or len(file) > MAX_SNIPPET_CHARS:
                continue
            merged = merge_snippet(file, text)
            similarity = _similarity(file, text)
            is_match = similarity >= MIN_FILE_SIMILARITY or _starts_with_line_of(file, text)
            if merged is not None and merged != file and is_match and _shares_line_with(file, text):
                yield similarity, path, merged


def _similarity(file: str, text: str) -> float:
    """Return the share of the characters that are in common lines, from 0 to 1."""
    old, new = _without_trailing_blanks(file.splitlines()), _without_trailing_blanks(text.splitlines())
    blocks = difflib.SequenceMatcher(None, old, new).get_matching_blocks()
    common = sum(len(line) + 1 for start, _, size in blocks for line in old[start : start + size])
    return 2 * common / sum(len(line) + 1 for line in (*old, *new))


def _shares_line_with(file: str, text: str) -> bool:
    """Whether the text contains a line of the file with the same indentation."""
    lines = {line.rstrip() for line in file.splitlines() if line.strip()}
    return any(line.rstrip() in lines for line in text.splitlines())


def _starts_with_line_of(file: str, text: str) -> bool:
    """Whether the first line of the text resembles a line of the file with the same indentation, which suggests that
    the text is a part of the file."""
    first = next((line.rstrip() for line in text.splitlines() if line.strip()), "")
    return sum(map(str.isalnum, first)) >= MIN_LINE_CHARS and any(
        _are_alike(line, first) and _indent(line) == _indent(first) for line in file.splitlines() if line.strip()
    )


def _without_trailing_blanks(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def _without_heading(text: str, path: str) -> str:
    found = _HEADING.match(text)
    return text[found.end() :] if found is not None and path.endswith(found[1].removeprefix("./")) else text
