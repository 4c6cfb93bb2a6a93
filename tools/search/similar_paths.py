"""Suggests existing files for a path that does not exist: those of the same name, and those with similar names in its
folder or elsewhere."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ebbtide.tools.files.paths import display
from ebbtide.tools.search.walk import nearest_below

MAX_SUGGESTIONS = 3
MAX_SCANNED_NAMES = 3_000
"""Maximum number of names examined, in the workspace (nearest first) and in a folder."""


def path_suggestion(path: Path, root: Path) -> str:
    """Return what the model may have meant, as the end of a sentence, or an empty string."""
    below = list(islice(nearest_below(str(root)), MAX_SCANNED_NAMES))
    names = list(dict.fromkeys((*_of_that_name(path, root, below), *_like_it(path, root))))[:MAX_SUGGESTIONS]
    names = names or _like_it_elsewhere(path, root, below)
    return f": is it {' or '.join(f'`{name}`' for name in names)}?" if names else ""


def _of_that_name(path: Path, root: Path, below: Sequence[str]) -> list[str]:
    """Return the files of the workspace whose path ends like this one, ignoring case, longest common suffix first."""
    end, wanted = f"/{path.name}".lower(), Path(str(path).lower()).parts[::-1]
    found = [each for each in below if f"/{each}".lower().endswith(end)]
    found.sort(key=lambda each: (-_common(Path(each.lower()).parts[::-1], wanted), Path(each).name != path.name))
    return [display(root / each, root) for each in found]


def _like_it_elsewhere(path: Path, root: Path, below: Sequence[str]) -> list[str]:
    """Return the files of the workspace with the same suffix and a similar name, wherever they are."""
    import difflib  # noqa: PLC0415  # deferred: only a wrong path needs it

    by_stem = dict[str, list[str]]()
    for each in below:
        other = Path(each)
        if not each.endswith("/") and other.suffix.lower() == path.suffix.lower():
            by_stem.setdefault(other.stem.lower(), []).append(each)
    close = difflib.get_close_matches(path.stem.lower(), by_stem, n=MAX_SUGGESTIONS, cutoff=0.75)
    return [display(root / each, root) for stem in close for each in by_stem[stem]][:MAX_SUGGESTIONS]


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return the number of common components of two paths, from the end."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _like_it(path: Path, root: Path) -> list[str]:
    import difflib  # noqa: PLC0415  # deferred: only a wrong path needs it

    # A common suffix such as `.txt` does not make names similar.
    by_stem = dict[str, list[str]]()
    try:
        with os.scandir(path.parent) as entries:
            for name in sorted(entry.name for entry in islice(entries, MAX_SCANNED_NAMES)):
                by_stem.setdefault(Path(name.lower()).stem, []).append(name)
    except OSError:
        return []
    close = difflib.get_close_matches(path.stem.lower(), by_stem, n=MAX_SUGGESTIONS, cutoff=0.6)
    return [display(path.parent / name, root) for stem in close for name in by_stem[stem]]
