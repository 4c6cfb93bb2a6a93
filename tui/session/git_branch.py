"""The branch that is checked out where a session works. It reads git's own files and starts no program."""

from pathlib import Path

from agent.input.instructions import git_branch, git_head


def branch_of(folder: Path) -> str:
    """Its name; where none is checked out the beginning of the commit, outside of a work tree nothing."""
    top = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
    if top is None:
        return ""
    head = git_head(top)
    return git_branch(top) or (head[:8] if all(letter in "0123456789abcdef" for letter in head) else "")
