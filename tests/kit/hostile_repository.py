"""A repository that wants to run something whatever git is asked; what it ran has left a file, `RAN-…`."""

import hashlib
import os
from pathlib import Path

from tests.kit.files import write_files, write_program
from tests.kit.git import git

EVIL = """
[core]
    repositoryFormatVersion = 1
    fsmonitor = "touch RAN-monitor; false"
    hooksPath = hooks
    pager = "touch RAN-pager; cat"
[extensions]
    partialClone = origin
[remote "origin"]
    promisor = true
    url = "ext::sh -c touch% RAN-fetch"
[protocol "ext"]
    allow = always
[diff]
    external = "touch RAN-external; true"
[diff "x"]
    textconv = "touch RAN-textconv; cat"
[diff "z"]
    command = "touch RAN-command; true"
[filter "x"]
    clean = "touch RAN-clean; cat"
    smudge = "touch RAN-smudge; cat"
    required = true
[filter "Y.=z"]
    clean = "touch RAN-strange; cat"
[filter "z"]
    process = "touch RAN-process; false"
[alias]
    st = "!touch RAN-alias"
"""
ATTRIBUTES = """
a filter=x diff=x
b filter=Y.=z diff=z
c filter=z
"""
TRAPS = (
    "monitor", "fetch", "external", "textconv", "command", "clean", "smudge", "strange", "process", "alias", "hook",
)  # fmt: skip
"""What a repository can have run, each by a file that tells."""


def hostile_repository(project: Path) -> Path:
    """A repository that wants to run something whatever git is asked."""
    git(project, "init")
    write_files(project, "abcd", "one\n")
    (project / "same").write_text("as it was\n")
    git(project, "add", ".")
    git(project, "commit", "-m", "first")
    for name in ("post-index-change", "pre-commit", "fsmonitor-watchman"):
        for hooks in (project / ".git" / "hooks", project / "hooks"):
            write_program(hooks / name, "touch RAN-hook\n")
    with (project / ".git" / "config").open("a") as config:
        config.write(EVIL)
    (project / ".gitattributes").write_text(ATTRIBUTES)
    write_files(project, "abcd", "two\n")
    os.utime(project / "same")
    return project


def ran(folder: Path) -> set[str]:
    """Which traps have sprung. None is set again before."""
    return {path.name.removeprefix("RAN-") for path in folder.rglob("RAN-*")}


def forget_the_blob(folder: Path) -> None:
    """What the last commit holds of all files is not there any more, but elsewhere, it says."""
    digest = hashlib.sha1(b"blob 4\0one\n").hexdigest()
    (folder / ".git" / "objects" / digest[:2] / digest[2:]).unlink()
