"""Private folders for session data, accessible only to the user."""

import os
from pathlib import Path


def create_private_folder(folder: Path) -> None:
    """Create the folder and its missing parents, accessible only to the user. Existing folders keep their mode. Raises
    `OSError`."""
    # `Path.mkdir(mode=…, parents=True)` applies the mode only to the last folder.
    for path in reversed((folder, *folder.parents)):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        except OSError:
            if not path.is_dir():  # an existing folder may be on a read-only disk
                raise
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is not a folder", str(folder))
