"""Which kinds of files a folder holds, by how their names end, as far as a short look tells."""

import os
from collections import Counter, deque
from contextlib import suppress
from itertools import islice
from pathlib import Path

MAX_SCANNED_NAMES = 1000
"""Names that are looked at."""


def endings_in(folder: Path) -> Counter[str]:
    """How often the first names in a folder and, level by level, those below it end in what: `.py`, `.ipynb`."""
    waiting, left = deque([str(folder)]), MAX_SCANNED_NAMES
    found: Counter[str] = Counter()
    while waiting and left > 0:
        with suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    if entry.name[0] != "." and entry.name != "node_modules":
                        waiting.append(entry.path)
                else:
                    found[os.path.splitext(entry.name)[1]] += 1
    return found
