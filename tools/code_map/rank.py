"""Which definitions of a project matter most: those that much is built on that matters itself, seen from the files that
somebody works on. Pure."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import sqrt
from typing import NamedTuple

from ebbtide.tools.code_map.tags import Definition, Tags

_DAMPING = 0.85
_ROUNDS = 20
_CLOSE = 1e-3
"""By how much all weights together still change, when they are good enough for an order."""
_MAX_DEFINERS = 8
"""Files that define a name, above which it tells of none of them."""
_FOCUS = 50.0
"""How much more a file counts that somebody works on, and a name that was asked for."""
_PRIVATE_WEIGHT, _SEEN_FILE_WEIGHT, _ASKED_FILE_WEIGHT, _ASKED_NAME_WEIGHT = 0.1, 0.1, 100.0, 1e6
"""How much more, or less, than others a definition counts that is private, whose file is known or was asked for, or
that was asked for itself."""
_UNUSED_DEFINITIONS = 30
"""Definitions among which a file's weight is shared besides its own: what nobody uses has a little of it."""


class MapFocus(NamedTuple):
    """What somebody works on."""

    seen: AbstractSet[str] = frozenset()
    """Files whose text they know: what these use matters to them, and less what they define."""
    asked: AbstractSet[str] = frozenset()
    """Files that they want to know of."""
    names: AbstractSet[str] = frozenset()
    """Names that they want to know of."""


def rank_definitions(files: Mapping[str, Tags], focus: MapFocus | None = None) -> list[tuple[str, Definition, float]]:
    """Every definition with its file and its weight, the heaviest first."""
    focus, files = focus or MapFocus(), dict(sorted(files.items()))
    definers: dict[str, list[str]] = {}
    for path, tags in files.items():
        for name in {definition.name for definition in tags.definitions}:
            definers.setdefault(name, []).append(path)
    uses = {path: _uses(path, tags, definers, focus.names) for path, tags in files.items()}
    weights = _page_rank({path: _edges(found) for path, found in uses.items()}, {*focus.seen, *focus.asked})
    scores: dict[tuple[str, str], float] = {}
    for path, found in uses.items():
        total = sum(weight for _, _, weight in found)
        for target, name, weight in found:
            scores[target, name] = scores.get((target, name), 0.0) + weights[path] * weight / total
    every: list[tuple[str, Definition, float]] = []
    for path, tags in files.items():
        for one in tags.definitions:
            score = scores.get((path, one.name), 0.0) + weights[path] / (_UNUSED_DEFINITIONS + len(tags.definitions))
            every.append((path, one, score * _interest(path, one, focus) / (1 + one.depth)))
    return sorted(every, key=lambda item: (-item[2], item[0], item[1].line))


def _interest(path: str, one: Definition, focus: MapFocus) -> float:
    if one.name in focus.names:
        return _ASKED_NAME_WEIGHT
    own = _PRIVATE_WEIGHT if one.name.startswith("_") else 1.0
    return own * (_ASKED_FILE_WEIGHT if path in focus.asked else _SEEN_FILE_WEIGHT if path in focus.seen else 1.0)


def _uses(
    path: str, tags: Tags, definers: Mapping[str, Sequence[str]], names: AbstractSet[str]
) -> list[tuple[str, str, float]]:
    """What a file uses of others: the file, the name, and how much that weighs."""
    found: list[tuple[str, str, float]] = []
    for name, count in tags.uses.items():
        there = definers.get(name, ())
        if not there or len(there) > _MAX_DEFINERS or path in there:
            continue
        weight = sqrt(count) / len(there)
        weight *= _FOCUS if name in names else 1.0
        found += [(other, name, weight) for other in there]
    return found


def _edges(found: Sequence[tuple[str, str, float]]) -> list[tuple[str, float]]:
    """What leads from a file to others, as shares."""
    edges: dict[str, float] = {}
    for target, _, weight in found:
        edges[target] = edges.get(target, 0.0) + weight
    total = sum(edges.values())
    return [(target, weight / total) for target, weight in edges.items()]


def _page_rank(edges: Mapping[str, Sequence[tuple[str, float]]], focus: AbstractSet[str]) -> dict[str, float]:
    """How likely one is to be in which file who goes on from name to definition, and begins anew now and then."""
    begin = {path: _FOCUS if path in focus else 1.0 for path in edges}
    total = sum(begin.values())
    begin = {path: weight / total for path, weight in begin.items()}
    weights = begin
    for _ in range(_ROUNDS):
        lost = sum(weight for path, weight in weights.items() if not edges[path])
        base = 1 - _DAMPING + _DAMPING * lost
        new = {path: base * share for path, share in begin.items()}
        for path, weight in weights.items():
            passed = _DAMPING * weight
            for target, share in edges[path]:
                new[target] += passed * share
        change = sum(abs(new[path] - weight) for path, weight in weights.items())
        weights = new
        if change < _CLOSE:
            break
    return weights
