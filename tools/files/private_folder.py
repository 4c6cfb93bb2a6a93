"""Folders that hold what was said and done, which only the user may look into."""

import os
from pathlib import Path


def make_private(folder: Path) -> None:
    """Makes it, and what is missing above it, so that nobody else can look into any of them. What is there stays as it
    is. Raises `OSError`."""
    # `Path.mkdir(mode=…, parents=True)` has the mode for the last of them only.
    for path in reversed((folder, *folder.parents)):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        except OSError:
            if not path.is_dir():  # a folder that is there may be on a disk that cannot be written
                raise
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is no folder", str(folder))
