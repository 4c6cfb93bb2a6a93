"""Checks that `npm ls` in a folder only lists its packages."""

import json
import os
from pathlib import Path

_MAX_PACKAGES = 3_000
_MAX_BYTES = 1_000_000


def npm_doubt(root: Path) -> str:
    """Return what npm might do in a project besides listing packages, or an empty string."""
    try:
        with (root / "package.json").open("rb") as file:
            package = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError):
        return "there is no readable package.json in the working folder"
    if not isinstance(package, dict) or "workspaces" in package:
        return "workspaces can lie outside the working folder"
    above = [folder for folder in root.parents if folder != Path.home()]
    obeyed = [root / ".npmrc", *(folder / name for folder in above for name in (".npmrc", "package.json"))]
    found = next((path for path in obeyed if os.path.lexists(path)), None)
    return f"npm obeys `{found}`" if found is not None else _doubt_about_packages(root)


def _doubt_about_packages(root: Path) -> str:
    waiting, count = [root / "node_modules"], 0
    while waiting:
        try:
            inside = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        count += len(inside)
        if count > _MAX_PACKAGES:
            return "there are too many packages to look at"
        for entry in inside:
            if entry.name == ".bin":
                continue
            if entry.is_symlink() or os.path.islink(f"{entry.path}/package.json"):
                return f"`{os.path.relpath(entry.path, root)}` is a link"
            if entry.is_dir():
                waiting.append(Path(entry.path) if entry.name[:1] == "@" else Path(entry.path, "node_modules"))
    return ""
