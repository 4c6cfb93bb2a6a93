"""Build the system prompt: base text, instructions of the project and the user, memories, and the environment. Files
are read once at the start of a session; the text stays the same until the next session."""

import hashlib
import os
from collections.abc import Set
from dataclasses import replace
from datetime import date
from pathlib import Path

from ebbtide.agent.context.prompt import InstructionFile, Instructions
from ebbtide.agent.context.reminder_notes import MODES, PRESENCE
from ebbtide.agent.input.base_text import base_text
from ebbtide.agent.input.instruction_files import (
    InstructionReader,
    UnreadableFile,
    folders_to,
    has_rules,
    instruction_files,
    user_files,
    with_imports,
)
from ebbtide.tools.files.bounded import beginning_of

LONGEST_LINE = 4_096
"""Maximum bytes read of a git file that names a branch or folder."""


def load_instructions(
    root: Path,
    project: Path,
    user_folder: Path,
    today: date,
    *,
    data_folder: Path | None = None,
    home: Path | None = None,
    mode: str = "",
    attended: bool = True,
    model: str = "",
    missing: Set[str] = frozenset(),
    is_short: bool = False,
) -> Instructions:
    """Return the sections of the system prompt for a session in `root`. Unreadable files are left out and named.
    `attended`: the user is present to answer; `home`: where files for other programs are searched; the rest as in
    `base_text`."""
    reader = InstructionReader()
    files = _read_files(root, project, user_folder, home, reader)
    return Instructions(
        base=base_text(model, missing, is_short=is_short),
        environment=_environment(root, project, today, mode, attended=attended),
        project="\n\n".join(file.section for file in files),
        memories=_memories(project, user_folder, data_folder),
        files=files,
        problems=tuple(reader.problems),
    )


def _read_files(
    root: Path, project: Path, user_folder: Path, home: Path | None, reader: InstructionReader
) -> tuple[InstructionFile, ...]:
    """Return each instruction file of a new session, with its imports."""
    own, found = user_files(user_folder, home), list[InstructionFile]()
    for path in instruction_files(root, project, user_folder, home):
        # The user's own file may be a link to another folder, as in a dotfiles repository.
        allowed = (path.parent, path.resolve().parent, project) if path in own else (project, root)
        found += with_imports(path, f"# Instructions from {path}", allowed, reader)
    for folder in filter(has_rules, folders_to(root, project)):
        from ebbtide.agent.input.scoped_rules import rules_in  # noqa: PLC0415  # deferred: few projects have such rules

        for rule in rules_in(folder, project, reader):
            if rule.scope in ("always", "offered") and reader.takes(rule.path, rule.text):
                found.append(rule.section)
    return tuple(found)


def memory_folder(data_folder: Path, project: Path) -> Path:
    """Return the folder for the memories of a project, one Markdown file per entry."""
    key = hashlib.blake2b(str(project).encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    return data_folder / "memories" / f"{project.name or 'root'}-{key}"


def _memories(project: Path, user_folder: Path, data_folder: Path | None) -> str:
    reader = InstructionReader()
    entries = sorted(memory_folder(data_folder, project).glob("*.md")) if data_folder else []
    user = user_folder / "memory.md"
    titles = [(user, "# What the user wants remembered")] if user.exists() else []
    titles += [(entry, f"# Remembered about this project: {entry.stem}") for entry in entries]
    sections = []
    for path, title in titles:
        try:
            sections.append(f"{title}\n\n{reader.read(path)}")
        except UnreadableFile as reason:
            sections.append(f"{title}\n\n[{path} is left out: {reason}]")
    return "\n\n".join(sections)


def git_branch(project: Path) -> str:
    """Return the checked-out branch; empty outside a git work tree or on a detached head."""
    head = git_head(project)
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") and head.isprintable() else ""


def branch_of(folder: Path) -> str:
    """Return the branch checked out in a folder; on a detached head the beginning of the commit, outside a work tree
    ""."""
    top = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
    if top is None:
        return ""
    head = git_head(top)
    return git_branch(top) or (head[:8] if all(letter in "0123456789abcdef" for letter in head) else "")


def git_head(project: Path) -> str:
    """Return what is checked out, as in git's HEAD file: `ref: refs/heads/…` or a commit; empty outside a git work
    tree."""
    place = project / ".git"
    try:
        if place.is_file():  # a linked work tree names its folder
            place = project / _line_in(place).removeprefix("gitdir:").strip()
        return _line_in(place / "HEAD")
    except (OSError, ValueError):
        return ""


def _line_in(path: Path) -> str:
    """Return the content of a one-line git file. Raises `OSError`."""
    return beginning_of(path, LONGEST_LINE).decode("utf-8", "replace").strip()


def in_mode(instructions: Instructions, mode: str, named: str) -> Instructions:
    """Return the system prompt of a session in one mode as it would be in another one."""
    now, then = (f"\n{_mode(one)}\n" for one in (mode, named))
    return replace(instructions, environment=instructions.environment.replace(now, then))


def _mode(mode: str) -> str:
    return f"Permission mode: {mode} ({MODES[mode]})" if mode in MODES else ""


def _environment(root: Path, project: Path, today: date, mode: str, *, attended: bool) -> str:
    branch = git_branch(project)
    git = "in a git work tree" if (project / ".git").exists() else "not in a git work tree"
    lines = [
        f"Working folder: {root} ({git}{f', branch {branch}' if branch else ''})",
        f"System: {os.uname().sysname} {os.uname().machine}",
        _mode(mode),
        f"{PRESENCE[attended]}.",
        f"Date: {today.isoformat()}",
    ]
    return "\n".join(line for line in lines if line)
