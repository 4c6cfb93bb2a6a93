"""The branch that is checked out where a session works. It reads git's own files and starts no program."""

from pathlib import Path

from agent.input.instructions import git_branch
from tools.files.bounded import LARGEST, beginning_of


def branch_of(folder: Path) -> str:
    """Its name; where none is checked out the beginning of the commit, outside of a work tree nothing."""
    top = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
    return (git_branch(top) or _commit(top)) if top is not None else ""


def _commit(top: Path) -> str:
    place = top / ".git"
    try:
        if place.is_file():  # a linked work tree names its folder
            place = top / _text_of(place).removeprefix("gitdir:").strip()
        head = _text_of(place / "HEAD").strip()
    except (OSError, ValueError):
        return ""
    return head[:8] if all(letter in "0123456789abcdef" for letter in head) else ""


def _text_of(path: Path) -> str:
    return beginning_of(path, LARGEST).decode("utf-8", "replace")
