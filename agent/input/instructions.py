"""The system text: what every session is told, what the project and the user say, what was remembered, where it all
happens. Files are read once, at the start of a session; nothing in the text changes until the next.

A project's files come with a repository that somebody else may have written: they import from the project alone.
"""

import hashlib
import os
import os.path
import re
from collections.abc import Iterator, Set
from dataclasses import field, replace
from datetime import date
from pathlib import Path

from agent.context.prompt import Instructions
from agent.context.reminder_notes import MODES, PRESENCE
from agent.input.base_text import base_text
from tools.files.bounded import beginning_of
from tools.lazy import dataclass, regex
from tools.outputs.extent import shortened

PROJECT_FILES = ("AGENT.md", "AGENTS.md")
MAX_BYTES = 32_768
"""Of each file; the rest is left out with a note, so that no file can fill the window."""
MAX_TOTAL = 131_072
"""Bytes of all instruction files with their imports; likewise of all memories."""
MAX_DEPTH = 5
"""Files that import each other in a row, the first one not counted."""
MAX_SKILLS = 200
MAX_DESCRIPTION = 300
LONGEST_LINE = 4_096
"""Bytes of what a file of git says of a branch or a folder."""

_CODE = regex(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_IMPORT = regex(r"(?:^|(?<=\s))@(?P<path>[^\s`]+)")
_ALONE = regex(r"^\s*(?:[-*]\s+)?@\S+\s*$")


def load_instructions(
    root: Path,
    project: Path,
    user_folder: Path,
    today: date,
    *,
    data_folder: Path | None = None,
    mode: str = "",
    attended: bool = True,
    model: str = "",
    missing: Set[str] = frozenset(),
    is_short: bool = False,
) -> Instructions:
    """The sections of the system text for a session in `root`. What cannot be read is left out and named. `attended`:
    somebody is there to answer; the rest as in `base_text`."""
    return Instructions(
        base=base_text(model, missing, is_short=is_short),
        environment=_environment(root, project, today, mode, attended=attended),
        project=_project(root, project, user_folder),
        memories=_memories(project, user_folder, data_folder),
        skills=_skills(user_folder / "skills"),
    )


def instruction_files(root: Path, project: Path, user_folder: Path) -> tuple[Path, ...]:
    """The user's file, then the project's from its top folder down to the working folder. One file a folder."""
    inner = [folder for folder in (root, *root.parents) if folder == project or project in folder.parents]
    found = []
    for folder in (user_folder, *reversed(inner or [root])):
        present = next((folder / name for name in PROJECT_FILES if (folder / name).is_file()), None)
        if present is not None:
            found.append(present)
    return tuple(found)


def _project(root: Path, project: Path, user_folder: Path) -> str:
    reader = InstructionReader()
    sections: list[str] = []
    for path in instruction_files(root, project, user_folder):
        allowed = (user_folder, project) if path.parent == user_folder else (project, root)
        places = tuple(folder.resolve() for folder in allowed)
        sections += _with_imports(path, f"# Instructions from {path}", places, reader, ())
    return "\n\n".join(sections)


@dataclass(slots=True)
class InstructionReader:
    """Reads files as long as there is room for them, each one once."""

    left: int = MAX_TOTAL
    seen: set[Path] = field(default_factory=set)

    def read(self, path: Path) -> str:
        """The file's text, cut at the limit. Raises `Unreadable`."""
        if not os.path.isfile(path):
            raise UnreadableFile("it is not a file" if os.path.exists(path) else "no such file")
        if self.left <= 0:
            raise UnreadableFile(f"the files before it already take {MAX_TOTAL} bytes")
        limit = min(MAX_BYTES, self.left)
        try:
            with path.open("rb") as file:
                raw = file.read(limit + 1)
        except OSError as error:
            raise UnreadableFile(f"it cannot be read: {error.strerror or error}") from error
        if b"\0" in raw:
            raise UnreadableFile("it is not a text")
        self.left -= min(len(raw), limit)
        text = raw[:limit].decode("utf-8", "replace").strip()
        return text + (f"\n\n[only the first {limit} bytes of this file are shown]" if len(raw) > limit else "")


class UnreadableFile(Exception):
    """Why a file is not in the system text."""


def _with_imports(
    path: Path, title: str, places: tuple[Path, ...], reader: InstructionReader, importers: tuple[Path, ...]
) -> list[str]:
    """The file as a section, and a section for each file that it imports. What fails is said in its place."""
    try:
        real = _resolved(path)
        if real in importers:
            raise UnreadableFile("it imports itself")
        if len(importers) > MAX_DEPTH:
            raise UnreadableFile(f"more than {MAX_DEPTH} files import each other in a row")
        if not any(real.is_relative_to(place) for place in places):
            raise UnreadableFile("it is outside of the project")
        if real in reader.seen:
            return []
        text = reader.read(real)
    except UnreadableFile as reason:
        return [f"{title}\n\n[left out: {reason}]"]
    reader.seen.add(real)
    sections = [f"{title}\n\n{text}"]
    for name in _imports(text, real.parent):
        wanted = _target(name, real.parent)
        sections += _with_imports(wanted, f"# {wanted}, imported by {path}", places, reader, (*importers, real))
    return sections


def _imports(text: str, folder: Path) -> Iterator[str]:
    """The paths after an `@` outside of code. In the middle of a line only those that name a file: `@name` may be a
    person or a package."""
    plain = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for line in plain.splitlines():
        for match in _IMPORT.finditer(line):
            name = match["path"] if _ALONE.match(line) else match["path"].rstrip(".,;:!?)\"'")
            if name and (_ALONE.match(line) or Path(name).suffix or os.path.isfile(_target(name, folder))):
                yield name


def _target(name: str, folder: Path) -> Path:
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # a user who is not there
        path = Path(name)
    return folder / path


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a name that is too long or no name at all
        raise UnreadableFile("no such file") from error


def memory_folder(data_folder: Path, project: Path) -> Path:
    """Where what was remembered about a project is kept: a Markdown file for each entry."""
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


def _skills(folder: Path) -> str:
    """The user's skills, a line each. A project's own are not offered: its scripts would run before it is trusted."""
    files = sorted(folder.glob("*/SKILL.md"))
    lines = [_skill(path) for path in files[:MAX_SKILLS]]
    if len(files) > MAX_SKILLS:
        lines.append(f"[{len(files) - MAX_SKILLS} more are left out]")
    intro = "# Skills\n\nEach is a file that says how to do something. Read it before you do what it describes."
    return "\n".join([intro, "", *lines]) if lines else ""


def _skill(path: Path) -> str:
    try:
        head = _front_matter(InstructionReader().read(path))
    except UnreadableFile as reason:
        return f"- {path.parent.name}: [left out: {reason}]"
    name = head.get("name") or path.parent.name
    description = " ".join(head.get("description", "").split())
    if not description:
        return f"- {name}: [left out: `{path}` has no description]"
    return f"- {name}: {shortened(description, MAX_DESCRIPTION)} ({path})"


def _front_matter(text: str) -> dict[str, str]:
    """The keys at the head of a Markdown file, between lines of `---`. Indented lines go on with the value above."""
    head: dict[str, str] = {}
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return head
    key = ""
    for line in lines[1:]:
        if line.strip() == "---":
            return head
        if key and line[:1].isspace():
            head[key] = f"{head[key]} {line.strip()}".strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            key, value = key.strip(), value.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            head[key] = value[1:-1] if is_quoted else "" if value in (">", "|", ">-", "|-") else value
    return {}


def git_branch(project: Path) -> str:
    """The branch that is checked out, or empty: not a git work tree, or no branch."""
    place = project / ".git"
    try:
        if place.is_file():  # a linked work tree names its folder
            place = project / _line_in(place).removeprefix("gitdir:").strip()
        head = _line_in(place / "HEAD")
    except (OSError, ValueError):
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") and head.isprintable() else ""


def _line_in(path: Path) -> str:
    """What a file of git says, which is one line. Raises `OSError`."""
    return beginning_of(path, LONGEST_LINE).decode("utf-8", "replace").strip()


def in_mode(instructions: Instructions, mode: str, named: str) -> Instructions:
    """The system text of a session in one mode as it would be in another one."""
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
