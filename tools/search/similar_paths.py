"""Suggests existing files for a path that does not exist: files with the same name, and files with similar names in its
folder or elsewhere."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ebbtide.tools.files.paths import display
from ebbtide.tools.search.walk import walk_nearest_first

MAX_SUGGESTIONS = 3
MAX_SCANNED_NAMES = 3_000
"""Maximum number of names examined in the workspace (nearest first), and in a folder."""


def path_suggestion(path: Path, root: Path) -> str:
    """Return what the model may have meant, worded as the end of a sentence; empty if nothing is similar."""
    nearby_paths = list(islice(walk_nearest_first(str(root)), MAX_SCANNED_NAMES))
    names = list(dict.fromkeys((*_paths_with_same_name(path, root, nearby_paths), *_similar_siblings(path, root))))[
        :MAX_SUGGESTIONS
    ]
    names = names or _similar_paths_elsewhere(path, root, nearby_paths)
    return f": is it {' or '.join(f'`{name}`' for name in names)}?" if names else ""


def _paths_with_same_name(path: Path, root: Path, below: Sequence[str]) -> list[str]:
    """Return the files of the workspace that have the same name, ignoring case. Files that share most of the path come
    first."""
    end, wanted = f"/{path.name}".lower(), Path(str(path).lower()).parts[::-1]
    found = [each for each in below if f"/{each}".lower().endswith(end)]
    found.sort(
        key=lambda each: (-_common_suffix_length(Path(each.lower()).parts[::-1], wanted), Path(each).name != path.name)
    )
    return [display(root / each, root) for each in found]


def _similar_paths_elsewhere(path: Path, root: Path, below: Sequence[str]) -> list[str]:
    """Return the files of the workspace with the same suffix and a similar name, in any folder."""
    import difflib  # noqa: PLC0415  # deferred: only a wrong path needs it

    by_stem = dict[str, list[str]]()
    for each in below:
        other = Path(each)
        if not each.endswith("/") and other.suffix.lower() == path.suffix.lower():
            by_stem.setdefault(other.stem.lower(), []).append(each)
    close = difflib.get_close_matches(path.stem.lower(), by_stem, n=MAX_SUGGESTIONS, cutoff=0.75)
    return [display(root / each, root) for stem in close for each in by_stem[stem]][:MAX_SUGGESTIONS]


def _common_suffix_length(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return the number of components at the end that two paths have in common."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _similar_siblings(path: Path, root: Path) -> list[str]:
    import difflib  # noqa: PLC0415  # deferred: only a wrong path needs it

    # Only stems are compared, because a common suffix such as `.txt` does not make names similar.
    by_stem = dict[str, list[str]]()
    try:
        with os.scandir(path.parent) as entries:
            for name in sorted(entry.name for entry in islice(entries, MAX_SCANNED_NAMES)):
                by_stem.setdefault(Path(name.lower()).stem, []).append(name)
    except OSError:
        return []
    close = difflib.get_close_matches(path.stem.lower(), by_stem, n=MAX_SUGGESTIONS, cutoff=0.6)
    return [display(path.parent / name, root) for stem in close for name in by_stem[stem]]
