"""Recognises files in the code blocks of an answer, for models that show a file instead of editing it. Finds the file
that a block belongs to, and the file's new content. No I/O."""

import difflib
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.agent.prompt.code_blocks import CodeBlock, parse_code_blocks
from ebbtide.tools.lazy import regex

MIN_FILE_SIMILARITY = 0.5
"""Minimum similarity, from 0 to 1, at which a code block and a file match."""
MIN_LINE_SIMILARITY = 0.5
"""Minimum similarity, from 0 to 1, at which two lines count as versions of each other."""
MIN_LINE_CHARS = 4
"""Minimum number of letters and digits in a line that identifies a file."""
MAX_SNIPPET_CHARS = 20_000
"""Maximum length of a block or file that is compared, in characters."""
MAX_LINE_PAIRS = 5_000
"""Maximum number of pairs of old and new lines that are compared. With more pairs, the block counts as too different
from the file."""

_FILE_NAME_COMMENT = regex(r"\A\s*(?:#|//|--|<!--|/\*)\s*([\w./-]+)\s*(?:-->|\*/)?[ \t]*\n+")
"""A comment in the first line that may contain the file name."""


def file_from_answer(
    answer: str, texts_by_path: Mapping[str, str], new_paths: Sequence[str] = ()
) -> tuple[str, str] | None:
    """Find the file that an answer shows. Return its path and full new text, or None if there is no such file or it is
    ambiguous. `texts_by_path`: the content of candidate files. `new_paths`: paths of files that do not exist yet."""
    blocks = [
        block
        for block in parse_code_blocks(answer)
        if not block.is_command and 0 < len(block.text) <= MAX_SNIPPET_CHARS
    ]
    best = max(_matching_files(blocks, texts_by_path), key=lambda candidate: candidate[0], default=None)
    if best is not None:
        _, path, merged = best
        return path, merged
    if len(new_paths) == len(blocks) == 1 and not texts_by_path:
        return new_paths[0], _without_file_name_comment(blocks[0].text, new_paths[0])
    return None


def merge_snippet(file_text: str, snippet: str) -> str | None:
    """Merge a snippet into a file. The snippet replaces the part that it rewrites, and the lines before and after that
    part are kept. None if other lines would be lost, or if too many lines differ to compare them all."""
    old_lines, new_lines = file_text.splitlines(), snippet.splitlines()
    opcodes = difflib.SequenceMatcher(None, _rstrip_lines(old_lines), _rstrip_lines(new_lines)).get_opcodes()
    base_indent = min((_indent_width(line) for line in new_lines if line.strip()), default=0)
    head, tail, pair_count = list[str](), list[str](), 0
    for index, (tag, old_start, old_end, new_start, new_end) in enumerate(opcodes):
        changed_indices = range(old_start, old_end) if tag != "equal" else ()
        top_level_indices = [
            old_index
            for old_index in changed_indices
            if old_lines[old_index].strip() and _indent_width(old_lines[old_index]) <= base_indent
        ]
        pair_count += len(top_level_indices) * (new_end - new_start)
        if pair_count > MAX_LINE_PAIRS:
            return None
        lost_indices = [
            old_index
            for old_index in top_level_indices
            if not any(_are_alike(old_lines[old_index], new_line) for new_line in new_lines[new_start:new_end])
        ]
        if index == len(opcodes) - 1 and (lost_indices or tag == "delete"):
            tail = old_lines[
                old_start if tag == "delete" else _start_of_blank_run(old_lines, lost_indices[0], old_start) : old_end
            ]
        elif index == 0 and (lost_indices or tag == "delete"):
            rewritten_indices = (
                old_index
                for old_index in range(lost_indices[-1] + 1 if lost_indices else 0, old_end)
                if new_start < new_end
            )
            head = old_lines[
                : next(
                    (
                        old_index
                        for old_index in rewritten_indices
                        if _are_alike(old_lines[old_index], new_lines[new_start])
                    ),
                    old_end,
                )
            ]
        elif lost_indices:
            return None
    return "\n".join([*head, *new_lines, *tail]) + ("\n" if file_text.endswith("\n") or not file_text else "")


def _are_alike(left: str, right: str) -> bool:
    matcher = difflib.SequenceMatcher(None, left.strip(), right.strip())
    ratios = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # upper bounds first: `ratio` is slow
    return all(ratio() >= MIN_LINE_SIMILARITY for ratio in ratios)


def _start_of_blank_run(lines: Sequence[str], index: int, start: int) -> int:
    while index > start and not lines[index - 1].strip():
        index -= 1
    return index


def _indent_width(line: str) -> int:
    return len(line) - len(line.lstrip())


def _matching_files(blocks: Sequence[CodeBlock], texts_by_path: Mapping[str, str]) -> Iterator[tuple[float, str, str]]:
    """Compare each code block with each file. For every match, yield the similarity, the path and the file's new
    content."""
    for path, file_text in texts_by_path.items():
        for block in blocks:
            snippet = _without_file_name_comment(block.text, path)
            if not file_text.strip() or len(file_text) > MAX_SNIPPET_CHARS:
                continue
            merged = merge_snippet(file_text, snippet)
            similarity = _similarity(file_text, snippet)
            is_match = similarity >= MIN_FILE_SIMILARITY or _starts_with_line_of(file_text, snippet)
            if merged is not None and merged != file_text and is_match and _shares_line_with(file_text, snippet):
                yield similarity, path, merged


def _similarity(file_text: str, snippet: str) -> float:
    """Return the share of characters in common lines, from 0 to 1."""
    old_lines, new_lines = _rstrip_lines(file_text.splitlines()), _rstrip_lines(snippet.splitlines())
    blocks = difflib.SequenceMatcher(None, old_lines, new_lines).get_matching_blocks()
    common = sum(len(line) + 1 for start, _, line_count in blocks for line in old_lines[start : start + line_count])
    return 2 * common / sum(len(line) + 1 for line in (*old_lines, *new_lines))


def _shares_line_with(file_text: str, snippet: str) -> bool:
    """Whether the snippet contains a line of the file with the same indentation."""
    lines = {line.rstrip() for line in file_text.splitlines() if line.strip()}
    return any(line.rstrip() in lines for line in snippet.splitlines())


def _starts_with_line_of(file_text: str, snippet: str) -> bool:
    """Whether the first line of the snippet resembles a line of the file with the same indentation, which suggests that
    the snippet is part of the file."""
    first_line = next((line.rstrip() for line in snippet.splitlines() if line.strip()), "")
    return sum(map(str.isalnum, first_line)) >= MIN_LINE_CHARS and any(
        _are_alike(line, first_line) and _indent_width(line) == _indent_width(first_line)
        for line in file_text.splitlines()
        if line.strip()
    )


def _rstrip_lines(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def _without_file_name_comment(text: str, path: str) -> str:
    match = _FILE_NAME_COMMENT.match(text)
    return text[match.end() :] if match is not None and path.endswith(match[1].removeprefix("./")) else text
