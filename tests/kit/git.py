"""Git in the repositories of tests."""

import subprocess
from pathlib import Path

_SETTINGS = ("user.name=n", "user.email=n@x.example", "init.defaultBranch=main", "protocol.file.allow=always")
GIT = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))


def git(folder: Path, *arguments: str, stdin: str = "") -> str:
    """Run git and return what it prints, without the last line end."""
    done = subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True, text=True, input=stdin)
    return done.stdout.removesuffix("\n")


def commit_all(folder: Path, message: str = "first") -> str:
    """Commit all files of a folder, which becomes a repository. Return the id of the commit."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")
