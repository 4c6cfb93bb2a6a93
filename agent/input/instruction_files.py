"""Find and read the instruction files of a folder, within limits and each text once.

A project's files come with a repository that others may have written: they can only import files of the project.
"""

import os
import os.path
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from ebbtide.agent.context.prompt import InstructionFile
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.byte_order import WIDEST, in_utf8
from ebbtide.tools.lazy import dataclass, regex

PROJECT_FILES = ("AGENT.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".claude/CLAUDE.md")
"""The first one that a folder has counts, and a later one that imports it."""
EXTRA_FILES = ("CLAUDE.local.md", ".github/copilot-instructions.md", ".cursorrules")
"""Read in addition."""
RULE_FOLDERS = (".cursor/rules", ".github/instructions", ".claude/rules")
"""Folders with one file per rule, whose front matter says what it applies to."""
OF_OTHERS = (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md")
"""The user's files for other programs, below the home folder: the first existing one is used if the program's own
folder has none of `PROJECT_FILES`."""
MAX_BYTES = 32_768
"""Bytes read of each file; the rest is left out with a note, so that no file can fill the window."""
MAX_TOTAL = 131_072
"""Total bytes of all instruction files with their imports; the same limit applies to all memories."""
MAX_DEPTH = 5
"""Maximum depth of imports, not counting the first file."""

_CODE = regex(r"^(```|~~~).*?^\1|`[^`\n]*`|<!--.*?(?:-->|\Z)", re.MULTILINE | re.DOTALL)
"""Code and comments, in which imports are ignored."""
_IMPORT = regex(r"(?:^|(?<=\s))@(?P<path>(?:\\ |[^\s`])+)")
_TEXTS = (".md", ".mdc", ".markdown", ".txt")
_ALONE = regex(r"^\s*(?:[-*]\s+)?@(?:\\ |\S)+\s*$")


def instruction_files(root: Path, project: Path, user_folder: Path, home: Path | None = None) -> tuple[Path, ...]:
    """Return the user's file, then the project's from its top folder down to the working folder. `home`: where files
    for other programs are searched."""
    return (*user_files(user_folder, home), *(path for each in folders_to(root, project) for path in files_in(each)))


def user_files(user_folder: Path, home: Path | None) -> tuple[Path, ...]:
    """Return the user's own file, if there is one."""
    own = [user_folder / name for name in PROJECT_FILES]
    others = [home / name for name in OF_OTHERS] if home is not None else []
    return tuple(path for path in (*own, *others) if path.is_file())[:1]


def folders_to(root: Path, project: Path) -> tuple[Path, ...]:
    """Return the folders from the top of the project down to the working folder."""
    inner = [folder for folder in (root, *root.parents) if folder == project or project in folder.parents]
    return tuple(reversed(inner or [root]))


def files_in(folder: Path) -> Iterator[Path]:
    """Yield the instruction files of one folder. An entry that is not a file is included so that it is reported, and
    the next name then counts as well; so does one that imports the first and adds text."""
    first: Path | None = None
    for name in PROJECT_FILES:
        path = folder / name
        if os.path.lexists(path) and (first is None or _adds_to(first, path)):
            yield path
            first = first or (path if path.is_file() else None)
    yield from (folder / name for name in EXTRA_FILES if os.path.lexists(folder / name))


def _adds_to(first: Path, path: Path) -> bool:
    try:
        text, _ = _decode_text(beginning_of(path, MAX_BYTES))
    except OSError:
        return False
    imported = (os.path.normpath(_target(name, path.parent)) for name in _imports(text, path.parent))
    return str(first) in imported and any(line.strip() and not _ALONE.match(line) for line in text.splitlines())


@dataclass(slots=True)
class InstructionReader:
    """Reads files while there is room for them, each file once and each text once."""

    left: int = MAX_TOTAL
    seen: set[Path] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    """Notices for the user about files, one a line."""

    def read(self, path: Path) -> str:
        """Return the file's text, cut at the limit. Raises `UnreadableFile`."""
        if not os.path.isfile(path):
            raise UnreadableFile("it is not a file" if os.path.exists(path) else "no such file")
        if self.left <= 0:
            raise UnreadableFile(f"the files before it already take {MAX_TOTAL} bytes")
        limit = min(MAX_BYTES, self.left)
        try:
            raw = in_utf8(beginning_of(path, WIDEST * (limit + 2)))
        except OSError as error:
            raise UnreadableFile(f"it cannot be read: {error.strerror or error}") from error
        if b"\0" in raw:
            raise UnreadableFile("it is not a text file")
        self.left -= min(len(raw), limit)
        if len(raw) > limit:
            self.problems.append(f"only the first {limit:,} bytes of `{path}` are read")
            return f"{_decode_text(raw[:limit])[0].strip()}\n\n[only the first {limit} bytes of this file are shown]"
        text, is_clean = _decode_text(raw)
        if not is_clean:
            self.problems.append(f"`{path}` contains invalid UTF-8, shown as `\ufffd`")
        return text.strip()

    def takes(self, path: Path, text: str) -> bool:
        """Whether to use a text that was read: it is not a duplicate, and there is room for it."""
        size = len(text.encode("utf-8", "replace"))
        if _resolve_path(path) in self.seen or text in self.texts:
            return False
        if size > self.left:
            self.problems.append(f"`{path}` is left out: the files before it already take {MAX_TOTAL} bytes")
            return False
        self.left -= size
        self.seen.add(_resolve_path(path))
        self.texts.add(text)
        return True


class UnreadableFile(Exception):
    """Why a file is not in the system prompt."""


def _decode_text(raw: bytes) -> tuple[str, bool]:
    """Return the text, and whether all of it could be decoded."""
    text = raw.decode("utf-8", "replace")
    return text, "\ufffd" not in text or text.encode("utf-8") == raw


def has_rules(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in RULE_FOLDERS)


def with_imports(
    path: Path, title: str, places: tuple[Path, ...], reader: InstructionReader, importers: tuple[Path, ...] = ()
) -> list[InstructionFile]:
    """Return the file under its title, and each file that it imports. A failure is noted in place of the text.
    `places`: folders outside which nothing is read."""
    try:
        real = _resolve_path(path)
        if real in importers:
            raise UnreadableFile("it imports itself")
        if len(importers) > MAX_DEPTH:
            raise UnreadableFile(f"more than {MAX_DEPTH} files import each other in a row")
        if not any(real.is_relative_to(place.resolve()) for place in places):
            raise UnreadableFile("it is outside the project")
        if real in reader.seen:
            return []
        text = reader.read(real)
    except UnreadableFile as reason:
        reader.problems.append(f"`{path}` is left out: {reason}")
        return [InstructionFile(str(path), f"{title}\n\n[left out: {reason}]", "")]
    reader.seen.add(real)
    if text in reader.texts:
        return []
    reader.texts.add(text)
    found = [InstructionFile(str(path), f"{title}\n\n{text}", text)]
    for name in _imports(text, real.parent):
        wanted = _target(name, real.parent)
        found += with_imports(wanted, f"# {wanted}, imported by {path}", places, reader, (*importers, real))
    return found


def _imports(text: str, folder: Path) -> Iterator[str]:
    """Yield the paths after an `@`, outside code and comments. Within a line only existing or text files count, because
    `@name` may be a person or a package, and `@app.route` a decorator."""
    plain = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for line in plain.splitlines():
        for match in _IMPORT.finditer(line):
            name = match["path"].replace("\\ ", " ")
            name = name if _ALONE.match(line) else name.rstrip(".,;:!?)\"'")
            if name and (_ALONE.match(line) or Path(name).suffix in _TEXTS or os.path.isfile(_target(name, folder))):
                yield name


def _target(name: str, folder: Path) -> Path:
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # no such user
        path = Path(name)
    return folder / path


def _resolve_path(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, or an overlong or invalid name
        raise UnreadableFile("no such file") from error
