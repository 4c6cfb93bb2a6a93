"""Formats a map for the model within a token budget. No I/O."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import printable_name, terminal_text


class MapEntry(NamedTuple):
    """A definition on the map."""

    path: str
    line: int
    depth: int
    signature: str


def map_within_budget(
    entries: Sequence[MapEntry], definition_count: int, max_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[str, int]:
    """Format as many of the first entries as fit into the token budget. Return the map and the number of entries on it.
    `definition_count`: total number of definitions."""
    fitting_count, rejected_count = 0, len(entries) + 1
    while rejected_count - fitting_count > 1:
        tried_count = (fitting_count + rejected_count) // 2
        if count_tokens(_format_map(entries[:tried_count], definition_count)) <= max_tokens:
            fitting_count = tried_count
        else:
            rejected_count = tried_count
    return _format_map(entries[:fitting_count], definition_count), fitting_count


def _format_map(chosen: Sequence[MapEntry], definition_count: int) -> str:
    """Format the definitions, grouped by file. Files are in the order of their most important definition, and
    definitions in the order of their lines."""
    entries_by_path: dict[str, list[MapEntry]] = {}
    for entry in chosen:
        entries_by_path.setdefault(entry.path, []).append(entry)
    lines = [
        line
        for path, entries in entries_by_path.items()
        for line in (f"{printable_name(path)}:", *_entry_lines(sorted(entries)))
    ]
    omitted_count = definition_count - len(chosen)
    omission_note = [
        f"(and {pluralize(omitted_count, 'definition')} more: name what matters in `focus`, or raise `tokens`)"
    ]
    return "\n".join([*lines, *(omission_note if omitted_count > 0 else [])])


def _entry_lines(entries: Iterable[MapEntry]) -> Iterable[str]:
    return (f"{entry.line}\t{'  ' * entry.depth}{terminal_text(entry.signature)}" for entry in entries)
