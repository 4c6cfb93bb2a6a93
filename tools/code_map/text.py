"""Formats a map for the model within a token budget. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import plain, printable


class MapEntry(NamedTuple):
    """A definition on the map."""

    path: str
    line: int
    depth: int
    signature: str


def fit_to_budget(
    chosen: Sequence[MapEntry], definitions: int, tokens: int, measure: Callable[[str], int]
) -> tuple[str, int]:
    """Return the map of the first definitions that fit, and their number. `definitions`: the total number."""
    fitting, too_many = 0, len(chosen) + 1
    while too_many - fitting > 1:
        tried = (fitting + too_many) // 2
        if measure(_format_map(chosen[:tried], definitions)) <= tokens:
            fitting = tried
        else:
            too_many = tried
    return _format_map(chosen[:fitting], definitions), fitting


def _format_map(chosen: Sequence[MapEntry], definitions: int) -> str:
    """Group by file, the one with the heaviest definition first, and sort each by line."""
    files: dict[str, list[MapEntry]] = {}
    for one in chosen:
        files.setdefault(one.path, []).append(one)
    lines = [line for path, found in files.items() for line in (f"{printable(path)}:", *_lines(sorted(found)))]
    left = definitions - len(chosen)
    more = [f"(and {pluralize(left, 'definition')} more: say in `focus` what matters, or allow more `tokens`)"]
    return "\n".join([*lines, *(more if left > 0 else [])])


def _lines(found: Iterable[MapEntry]) -> Iterable[str]:
    return (f"{one.line}\t{'  ' * one.depth}{plain(one.signature)}" for one in found)
