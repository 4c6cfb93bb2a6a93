"""Builds the system prompt: base text, project and user instructions, memories, and the environment. Files are read
once, at the start of a session; the text stays the same until the next session."""

import hashlib
import os
from collections.abc import Set
from dataclasses import replace
from datetime import date
from pathlib import Path

from ebbtide.agent import input
from ebbtide.agent.input.base_text import build_base_text
from ebbtide.agent.input.instruction_files import (
    InstructionReader,
    UnreadableFileError,
    find_instruction_files,
    find_user_files,
    folders_down_to,
    has_rule_folder,
    read_with_imports,
)
from ebbtide.agent.prompt.build import InstructionFile, Instructions
from ebbtide.agent.prompt.reminder_notes import MODE_DESCRIPTIONS, PRESENCE_DESCRIPTIONS
from ebbtide.tools.files.bounded import read_prefix

MAX_GIT_FILE_BYTES = 4_096
"""Maximum number of bytes read from a git file that names a branch or folder."""


def load_instructions(
    working_folder: Path,
    project: Path,
    config_folder: Path,
    today: date,
    *,
    data_folder: Path | None = None,
    home: Path | None = None,
    mode: str = "",
    is_interactive: bool = True,
    model: str = "",
    missing_tools: Set[str] = frozenset(),
    is_short: bool = False,
) -> Instructions:
    """Return the sections of the system prompt for a session in `working_folder`. Unreadable files are omitted and
    reported. `is_interactive`: whether the user is present to answer; `home`: where to look for other programs' files;
    for the other arguments, see `build_base_text`."""
    reader = InstructionReader()
    files = _read_files(working_folder, project, config_folder, home, reader)
    return Instructions(
        base_text=build_base_text(model, missing_tools, is_short=is_short),
        environment=_environment_text(working_folder, project, today, mode, is_interactive=is_interactive),
        project="\n\n".join(file.section_text for file in files),
        memories=_memory_text(project, config_folder, data_folder),
        files=files,
        problems=tuple(reader.problems),
    )


def _read_files(
    working_folder: Path, project: Path, config_folder: Path, home: Path | None, reader: InstructionReader
) -> tuple[InstructionFile, ...]:
    """Return the instruction files, imports and rules that the system prompt of a new session contains."""
    user_file_paths = find_user_files(config_folder, home)
    files: list[InstructionFile] = []
    for path in find_instruction_files(working_folder, project, config_folder, home):
        # The user's own file may be a link into another folder, such as a dotfiles repository.
        allowed_folders = (
            (path.parent, path.resolve().parent, project) if path in user_file_paths else (project, working_folder)
        )
        files += read_with_imports(path, f"# Instructions from {path}", allowed_folders, reader)
    for folder in filter(has_rule_folder, folders_down_to(working_folder, project)):
        for rule in input.scoped_rules.read_rules(folder, project, reader):
            if rule.scope in ("always", "offered") and reader.accept_text(rule.path, rule.text):
                files.append(rule.section)
    return tuple(files)


def project_memory_folder(data_folder: Path, project: Path) -> Path:
    """Return the folder for the memories of a project, one Markdown file per entry."""
    project_key = hashlib.blake2b(str(project).encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    return data_folder / "memories" / f"{project.name or 'root'}-{project_key}"


def _memory_text(project: Path, config_folder: Path, data_folder: Path | None) -> str:
    reader = InstructionReader()
    project_memory_files = sorted(project_memory_folder(data_folder, project).glob("*.md")) if data_folder else []
    user_memory_file = config_folder / "memory.md"
    titled_paths = [(user_memory_file, "# What the user wants remembered")] if user_memory_file.exists() else []
    titled_paths += [
        (memory_file, f"# Remembered about this project: {memory_file.stem}") for memory_file in project_memory_files
    ]
    sections = []
    for path, title in titled_paths:
        try:
            sections.append(f"{title}\n\n{reader.read(path)}")
        except UnreadableFileError as error:
            sections.append(f"{title}\n\n[{path} is skipped: {error}]")
    return "\n\n".join(sections)


def git_branch(project: Path) -> str:
    """Return the checked-out branch; empty outside a git work tree or on a detached head."""
    head = read_git_head(project)
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") and head.isprintable() else ""


def branch_or_commit(folder: Path) -> str:
    """Return the branch checked out in a folder. On a detached head, return the abbreviated commit hash; empty outside
    a work tree."""
    work_tree = next((ancestor for ancestor in (folder, *folder.parents) if (ancestor / ".git").exists()), None)
    if work_tree is None:
        return ""
    head = read_git_head(work_tree)
    return git_branch(work_tree) or (head[:8] if all(character in "0123456789abcdef" for character in head) else "")


def read_git_head(folder: Path) -> str:
    """Return the content of git's HEAD file: `ref: refs/heads/…` or a commit; empty outside a git work tree."""
    git_path = folder / ".git"
    try:
        if git_path.is_file():  # in a linked work tree, `.git` is a file that names the folder
            git_path = folder / _read_one_line_file(git_path).removeprefix("gitdir:").strip()
        return _read_one_line_file(git_path / "HEAD")
    except (OSError, ValueError):
        return ""


def _read_one_line_file(path: Path) -> str:
    """Return the content of a one-line git file. Raises `OSError`."""
    return read_prefix(path, MAX_GIT_FILE_BYTES).decode("utf-8", "replace").strip()


def replace_mode(instructions: Instructions, mode: str, new_mode: str) -> Instructions:
    """Replace the system prompt's line about `mode` with one about `new_mode`, or remove it if `new_mode` is empty."""
    old_line, new_line = (f"\n{_mode_line(mode_name)}\n" for mode_name in (mode, new_mode))
    return replace(instructions, environment=instructions.environment.replace(old_line, new_line))


def _mode_line(mode: str) -> str:
    return f"Permission mode: {mode} ({MODE_DESCRIPTIONS[mode]})" if mode in MODE_DESCRIPTIONS else ""


def _environment_text(working_folder: Path, project: Path, today: date, mode: str, *, is_interactive: bool) -> str:
    branch = git_branch(project)
    git_status = "in a git work tree" if (project / ".git").exists() else "not in a git work tree"
    lines = [
        f"Working folder: {working_folder} ({git_status}{f', branch {branch}' if branch else ''})",
        f"System: {os.uname().sysname} {os.uname().machine}",
        _mode_line(mode),
        f"{PRESENCE_DESCRIPTIONS[is_interactive]}.",
        f"Date: {today.isoformat()}",
    ]
    return "\n".join(line for line in lines if line)
