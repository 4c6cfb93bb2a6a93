"""Counts the file types in a folder, by suffix, in a short scan."""

import os
from collections import Counter, deque
from contextlib import suppress
from itertools import islice
from pathlib import Path

MAX_SCANNED_NAMES = 1000
"""Maximum number of names scanned."""


def count_suffixes(folder: Path) -> Counter[str]:
    """Count the suffixes (such as `.py`, `.ipynb`) of the first files found in a folder and its subfolders, level by
    level."""
    pending_folders, remaining_names = deque([str(folder)]), MAX_SCANNED_NAMES
    counts: Counter[str] = Counter()
    while pending_folders and remaining_names > 0:
        with suppress(OSError), os.scandir(pending_folders.popleft()) as entries:
            for entry in islice(entries, remaining_names):
                remaining_names -= 1
                if entry.is_dir(follow_symlinks=False):
                    if entry.name[0] != "." and entry.name != "node_modules":
                        pending_folders.append(entry.path)
                else:
                    counts[os.path.splitext(entry.name)[1]] += 1
    return counts
