"""Suggests existing files for a path that does not exist: files with the same name, and files with similar names in its
folder or elsewhere."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ebbtide.tools.files.paths import display_path
from ebbtide.tools.outputs.plain_text import common_prefix_length
from ebbtide.tools.search.walk import walk_nearest_first

MAX_SUGGESTIONS = 3
MAX_SCANNED_NAMES = 3_000
"""Maximum number of names examined, both in the workspace (nearest first) and in a folder."""


def path_suggestion(path: Path, root: Path) -> str:
    """Suggest which path the model probably meant, worded as the end of a sentence. Empty if nothing is similar."""
    nearby_paths = list(islice(walk_nearest_first(str(root)), MAX_SCANNED_NAMES))
    names = list(dict.fromkeys((*_paths_with_same_name(path, root, nearby_paths), *_similar_siblings(path, root))))[
        :MAX_SUGGESTIONS
    ]
    names = names or _similar_paths_elsewhere(path, root, nearby_paths)
    return f"; did you mean {' or '.join(f'`{name}`' for name in names)}?" if names else ""


def _paths_with_same_name(path: Path, root: Path, nearby_paths: Sequence[str]) -> list[str]:
    """Return the files in the workspace that have the same name, ignoring case. Those that share most of the path come
    first."""
    suffix = f"/{path.name}".lower()
    reversed_parts = Path(str(path).lower()).parts[::-1]
    same_named = [candidate for candidate in nearby_paths if f"/{candidate}".lower().endswith(suffix)]
    same_named.sort(
        key=lambda candidate: (
            -common_prefix_length(Path(candidate.lower()).parts[::-1], reversed_parts),
            Path(candidate).name != path.name,
        )
    )
    return [display_path(root / candidate, root) for candidate in same_named]


def _similar_paths_elsewhere(path: Path, root: Path, nearby_paths: Sequence[str]) -> list[str]:
    """Return the files of the workspace with the same suffix and a similar name, in any folder."""
    import difflib  # noqa: PLC0415  # deferred: only a wrong path needs it

    paths_by_stem = dict[str, list[str]]()
    for nearby in nearby_paths:
        candidate = Path(nearby)
        if not nearby.endswith("/") and candidate.suffix.lower() == path.suffix.lower():
            paths_by_stem.setdefault(candidate.stem.lower(), []).append(nearby)
    similar_stems = difflib.get_close_matches(path.stem.lower(), paths_by_stem, n=MAX_SUGGESTIONS, cutoff=0.75)
    return [display_path(root / nearby, root) for stem in similar_stems for nearby in paths_by_stem[stem]][
        :MAX_SUGGESTIONS
    ]


def _similar_siblings(path: Path, root: Path) -> list[str]:
    import difflib  # noqa: PLC0415  # deferred: only a wrong path needs it

    # Only stems are compared, because a common suffix such as `.txt` does not make names similar.
    names_by_stem = dict[str, list[str]]()
    try:
        with os.scandir(path.parent) as entries:
            for name in sorted(entry.name for entry in islice(entries, MAX_SCANNED_NAMES)):
                names_by_stem.setdefault(Path(name.lower()).stem, []).append(name)
    except OSError:
        return []
    similar_stems = difflib.get_close_matches(path.stem.lower(), names_by_stem, n=MAX_SUGGESTIONS, cutoff=0.6)
    return [display_path(path.parent / name, root) for stem in similar_stems for name in names_by_stem[stem]]
