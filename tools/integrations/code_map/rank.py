"""Ranks a project's definitions by importance, seen from the files in focus. No I/O."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import sqrt
from typing import NamedTuple

from ebbtide.tools.integrations.code_map.tags import Definition, Tags

_DAMPING = 0.85
_MAX_ITERATIONS = 20
_CONVERGENCE_THRESHOLD = 1e-3
"""The iteration stops when the weights change by less than this in total."""
_MAX_DEFINERS = 8
"""A name defined in more files than this is too common to be informative."""
_FOCUS_WEIGHT = 50.0
"""Weight factor of files in focus and of requested names."""
_PRIVATE_WEIGHT, _SEEN_FILE_WEIGHT, _REQUESTED_FILE_WEIGHT, _REQUESTED_NAME_WEIGHT = 0.1, 0.1, 100.0, 1e6
"""Weight factors for private definitions, definitions in files already seen, definitions in requested files, and
requested definitions."""
_UNUSED_DEFINITIONS = 30
"""A file's weight is divided by its number of definitions plus this number. This keeps the weight of unused definitions
low."""


class MapFocus(NamedTuple):
    """The files and names that the map focuses on."""

    seen_files: AbstractSet[str] = frozenset()
    """Files already seen. Names that they use matter more, and names that they define matter less."""
    requested_files: AbstractSet[str] = frozenset()
    """Requested files."""
    requested_names: AbstractSet[str] = frozenset()
    """Requested names."""


def rank_definitions(files: Mapping[str, Tags], focus: MapFocus | None = None) -> list[tuple[str, Definition, float]]:
    """Return every definition with its file and weight, heaviest first."""
    focus = focus or MapFocus()
    files = dict(sorted(files.items()))
    definers: dict[str, list[str]] = {}
    for path, tags in files.items():
        for name in {definition.name for definition in tags.definitions}:
            definers.setdefault(name, []).append(path)
    uses = {path: _weighted_uses(path, tags, definers, focus.requested_names) for path, tags in files.items()}
    weights = _page_rank(
        {path: _edges(file_uses) for path, file_uses in uses.items()}, {*focus.seen_files, *focus.requested_files}
    )
    scores: dict[tuple[str, str], float] = {}
    for path, file_uses in uses.items():
        total = sum(weight for _, _, weight in file_uses)
        for target, name, weight in file_uses:
            scores[target, name] = scores.get((target, name), 0.0) + weights[path] * weight / total
    weighted: list[tuple[str, Definition, float]] = []
    for path, tags in files.items():
        for definition in tags.definitions:
            score = scores.get((path, definition.name), 0.0) + weights[path] / (
                _UNUSED_DEFINITIONS + len(tags.definitions)
            )
            weight = score * _definition_factor(path, definition, focus) / (1 + definition.depth)
            weighted.append((path, definition, weight))
    return sorted(weighted, key=lambda item: (-item[2], item[0], item[1].line))


def _definition_factor(path: str, definition: Definition, focus: MapFocus) -> float:
    if definition.name in focus.requested_names:
        return _REQUESTED_NAME_WEIGHT
    name_factor = _PRIVATE_WEIGHT if definition.name.startswith("_") else 1.0
    return name_factor * (
        _REQUESTED_FILE_WEIGHT
        if path in focus.requested_files
        else _SEEN_FILE_WEIGHT
        if path in focus.seen_files
        else 1.0
    )


def _weighted_uses(
    path: str, tags: Tags, definers: Mapping[str, Sequence[str]], names: AbstractSet[str]
) -> list[tuple[str, str, float]]:
    """Return the names from other files that a file uses, as tuples: other file, name, weight."""
    uses: list[tuple[str, str, float]] = []
    for name, count in tags.uses.items():
        defining_files = definers.get(name, ())
        if not defining_files or len(defining_files) > _MAX_DEFINERS or path in defining_files:
            continue
        weight = sqrt(count) / len(defining_files)
        weight *= _FOCUS_WEIGHT if name in names else 1.0
        uses += [(target, name, weight) for target in defining_files]
    return uses


def _edges(uses: Sequence[tuple[str, str, float]]) -> list[tuple[str, float]]:
    """Return the edges from a file to others, with weights that add up to 1."""
    edges: dict[str, float] = {}
    for target, _, weight in uses:
        edges[target] = edges.get(target, 0.0) + weight
    total = sum(edges.values())
    return [(target, weight / total) for target, weight in edges.items()]


def _page_rank(edges: Mapping[str, Sequence[tuple[str, float]]], focus: AbstractSet[str]) -> dict[str, float]:
    """Return the PageRank of each file. This is the probability of reaching it by following names to their definitions,
    with random restarts at the files in focus."""
    restart_weights = {path: _FOCUS_WEIGHT if path in focus else 1.0 for path in edges}
    total = sum(restart_weights.values())
    restart_weights = {path: weight / total for path, weight in restart_weights.items()}
    weights = restart_weights
    for _ in range(_MAX_ITERATIONS):
        dangling_weight = sum(weight for path, weight in weights.items() if not edges[path])
        base = 1 - _DAMPING + _DAMPING * dangling_weight
        new_weights = {path: base * share for path, share in restart_weights.items()}
        for path, weight in weights.items():
            distributed_weight = _DAMPING * weight
            for target, share in edges[path]:
                new_weights[target] += distributed_weight * share
        change = sum(abs(new_weights[path] - weight) for path, weight in weights.items())
        weights = new_weights
        if change < _CONVERGENCE_THRESHOLD:
            break
    return weights
