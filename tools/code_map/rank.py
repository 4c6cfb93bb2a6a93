"""Ranks a project's definitions by importance, from the point of view of the files in focus. Pure."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import sqrt
from typing import NamedTuple

from ebbtide.tools.code_map.tags import Definition, Tags

_DAMPING = 0.85
_ROUNDS = 20
_CLOSE = 1e-3
"""Total change of the weights at which the iteration stops, precise enough for ranking."""
_MAX_DEFINERS = 8
"""Maximum number of files that define a name. Names defined in more files are too common to be informative."""
_FOCUS = 50.0
"""Weight factor of files in focus and of requested names."""
_PRIVATE_WEIGHT, _SEEN_FILE_WEIGHT, _ASKED_FILE_WEIGHT, _ASKED_NAME_WEIGHT = 0.1, 0.1, 100.0, 1e6
"""Weight factors of a private definition, of one in a file already seen, of one in a requested file, and of a requested
one."""
_UNUSED_DEFINITIONS = 30
"""A file's weight is shared among this many definitions besides its own, so that unused ones get a little of it."""


class MapFocus(NamedTuple):
    """The focus of the map."""

    seen: AbstractSet[str] = frozenset()
    """Files already seen. What they use matters more, and what they define matters less."""
    asked: AbstractSet[str] = frozenset()
    """Requested files."""
    names: AbstractSet[str] = frozenset()
    """Requested names."""


def rank_definitions(files: Mapping[str, Tags], focus: MapFocus | None = None) -> list[tuple[str, Definition, float]]:
    """Return every definition with its file and weight, heaviest first."""
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
    """Return what a file uses of others: file, name and weight."""
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
    """Return the edges from a file to others, with normalised weights."""
    edges: dict[str, float] = {}
    for target, _, weight in found:
        edges[target] = edges.get(target, 0.0) + weight
    total = sum(edges.values())
    return [(target, weight / total) for target, weight in edges.items()]


def _page_rank(edges: Mapping[str, Sequence[tuple[str, float]]], focus: AbstractSet[str]) -> dict[str, float]:
    """Return the PageRank of each file: the probability of reaching it by following names to definitions, with random
    restarts at the files in focus."""
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
