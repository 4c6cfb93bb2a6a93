"""The file types in a folder, by suffix, from a short scan."""

import os
from collections import Counter, deque
from contextlib import suppress
from itertools import islice
from pathlib import Path

MAX_SCANNED_NAMES = 1000
"""Maximum number of names scanned."""


def endings_in(folder: Path) -> Counter[str]:
    """Count the suffixes of the first files in a folder and, level by level, below it: `.py`, `.ipynb`."""
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
