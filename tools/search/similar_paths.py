"""The files that may be meant by a path at which nothing is: those of that name, and those in its folder whose names
are like it."""

import os
from itertools import islice
from pathlib import Path

from tools.files.paths import display
from tools.search.walk import nearest_below

MOST = 3
LOOKED_AT = 3_000
"""Names of a workspace, the nearest first, and of a folder."""


def meant(path: Path, root: Path) -> str:
    """What the model may have meant, as the end of a sentence; empty where nothing is like it."""
    names = list(dict.fromkeys((*_of_that_name(path, root), *_like_it(path, root))))[:MOST]
    return f": is it {' or '.join(f'`{name}`' for name in names)}?" if names else ""


def _of_that_name(path: Path, root: Path) -> list[str]:
    """The files of the workspace that the end of the path names, those first that more of it names."""
    end, wanted = f"/{path.name}", path.parts[::-1]
    found = [below for below in islice(nearest_below(str(root)), LOOKED_AT) if f"/{below}".endswith(end)]
    found.sort(key=lambda below: -_common(Path(below).parts[::-1], wanted))
    return [display(root / below, root) for below in found]


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many parts two paths have in common, from their ends."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _like_it(path: Path, root: Path) -> list[str]:
    import difflib  # noqa: PLC0415  # deferred: only a wrong path needs it

    # What files of a kind have in common, `.txt`, makes none of them like another.
    by_stem = dict[str, list[str]]()
    try:
        with os.scandir(path.parent) as entries:
            for name in sorted(entry.name for entry in islice(entries, LOOKED_AT)):
                by_stem.setdefault(Path(name.lower()).stem, []).append(name)
    except OSError:
        return []
    close = difflib.get_close_matches(path.stem.lower(), by_stem, n=MOST, cutoff=0.6)
    return [display(path.parent / name, root) for stem in close for name in by_stem[stem]]
