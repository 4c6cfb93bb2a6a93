"""Finds and reads the instruction files of a folder, within size limits. Identical texts are used only once.

A project's files belong to a repository that others may have written, so they can only import project files.
"""

import os
import os.path
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from ebbtide.agent.prompt.build import InstructionFile
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.byte_order import MAX_MARK_BYTES, to_utf8
from ebbtide.tools.lazy import dataclass, regex

MAIN_FILE_NAMES = ("AGENT.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".claude/CLAUDE.md")
"""Names of the main instruction file. The first one that a folder contains is used. A later one is also used if it
imports the first and adds text."""
EXTRA_FILE_NAMES = ("CLAUDE.local.md", ".github/copilot-instructions.md", ".cursorrules")
"""Names of files that are read in addition to the main instruction file."""
RULE_FOLDERS = (".cursor/rules", ".github/instructions", ".claude/rules")
"""Folders with one file per rule, whose front matter says which files the rule applies to."""
OTHER_USER_FILES = (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md")
"""The user's files for other programs, relative to the home folder. The first one that exists is used if the user's
configuration folder contains none of `MAIN_FILE_NAMES`."""
MAX_FILE_BYTES = 32_768
"""Maximum number of bytes read from each file. The rest is omitted with a note, so that no file can fill the window."""
MAX_TOTAL_BYTES = 131_072
"""Maximum total size of all instruction files with their imports, in bytes. The memories have a separate limit of this
size."""
MAX_IMPORT_DEPTH = 5
"""Maximum depth of imports, not counting the first importing file."""

_CODE_OR_COMMENT = regex(r"^(```|~~~).*?^\1|`[^`\n]*`|<!--.*?(?:-->|\Z)", re.MULTILINE | re.DOTALL)
"""Matches code and comments, in which imports are ignored."""
_IMPORT = regex(r"(?:^|(?<=\s))@(?P<path>(?:\\ |[^\s`])+)")
_TEXT_SUFFIXES = (".md", ".mdc", ".markdown", ".txt")
_IMPORT_LINE = regex(r"^\s*(?:[-*]\s+)?@(?:\\ |\S)+\s*$")


def find_instruction_files(
    working_folder: Path, project: Path, config_folder: Path, home: Path | None = None
) -> tuple[Path, ...]:
    """Return the user's file, then the project's files from its top folder down to the working folder. `home`: where to
    look for other programs' files; None skips them."""
    return (
        *find_user_files(config_folder, home),
        *(path for folder in folders_down_to(working_folder, project) for path in instruction_files_in(folder)),
    )


def find_user_files(config_folder: Path, home: Path | None) -> tuple[Path, ...]:
    """Return a tuple with the path of the user's own instruction file; empty if there is none."""
    own_files = [config_folder / name for name in MAIN_FILE_NAMES]
    other_files = [home / name for name in OTHER_USER_FILES] if home is not None else []
    return tuple(path for path in (*own_files, *other_files) if path.is_file())[:1]


def folders_down_to(working_folder: Path, project: Path) -> tuple[Path, ...]:
    """Return the folders from the top of the project down to the working folder."""
    folders = [
        folder for folder in (working_folder, *working_folder.parents) if folder == project or project in folder.parents
    ]
    return tuple(reversed(folders or [working_folder]))


def instruction_files_in(folder: Path) -> Iterator[Path]:
    """Yield the instruction files of one folder: the first main file, main files that import it and add text, and the
    extra files. A main file that is not a regular file is yielded too, so that it is reported, and the search continues
    with the next name."""
    main_file: Path | None = None
    for name in MAIN_FILE_NAMES:
        path = folder / name
        if os.path.lexists(path) and (main_file is None or _extends(main_file, path)):
            yield path
            main_file = main_file or (path if path.is_file() else None)
    yield from (folder / name for name in EXTRA_FILE_NAMES if os.path.lexists(folder / name))


def _extends(main_file: Path, path: Path) -> bool:
    try:
        text, _ = _decode_text(read_prefix(path, MAX_FILE_BYTES))
    except OSError:
        return False
    imported = (os.path.normpath(_resolve_import(name, path.parent)) for name in _imported_names(text, path.parent))
    return str(main_file) in imported and any(
        line.strip() and not _IMPORT_LINE.match(line) for line in text.splitlines()
    )


@dataclass(slots=True)
class InstructionReader:
    """Reads instruction files up to a total size, and skips files and texts that were already read."""

    remaining_bytes: int = MAX_TOTAL_BYTES
    seen_paths: set[Path] = field(default_factory=set)
    seen_texts: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    """Notices for the user about files, one per line."""

    def read(self, path: Path) -> str:
        """Return the text of a file, cut at the limit. Raises `UnreadableFileError`."""
        if not os.path.isfile(path):
            raise UnreadableFileError("it is not a file" if os.path.exists(path) else "no such file")
        if self.remaining_bytes <= 0:
            raise UnreadableFileError(f"earlier files already take {MAX_TOTAL_BYTES} bytes")
        limit = min(MAX_FILE_BYTES, self.remaining_bytes)
        try:
            data = to_utf8(read_prefix(path, MAX_MARK_BYTES * (limit + 2)))
        except OSError as error:
            raise UnreadableFileError(f"it cannot be read: {error.strerror or error}") from error
        if b"\0" in data:
            raise UnreadableFileError("it is not a text file")
        self.remaining_bytes -= min(len(data), limit)
        if len(data) > limit:
            self.problems.append(f"only the first {limit:,} bytes of `{path}` are read")
            return f"{_decode_text(data[:limit])[0].strip()}\n\n[only the first {limit} bytes of this file are shown]"
        text, is_valid_utf8 = _decode_text(data)
        if not is_valid_utf8:
            self.problems.append(f"`{path}` contains invalid UTF-8, shown as `\ufffd`")
        return text.strip()

    def accept_text(self, path: Path, text: str) -> bool:
        """Decide whether to use a file's text: it must fit and must not be a duplicate. If it is used, it counts
        towards the total size."""
        size = len(text.encode("utf-8", "replace"))
        if _resolve_path(path) in self.seen_paths or text in self.seen_texts:
            return False
        if size > self.remaining_bytes:
            self.problems.append(f"`{path}` is skipped: earlier files already take {MAX_TOTAL_BYTES} bytes")
            return False
        self.remaining_bytes -= size
        self.seen_paths.add(_resolve_path(path))
        self.seen_texts.add(text)
        return True


class UnreadableFileError(Exception):
    """A file cannot be read as an instruction file. The message gives the reason."""


def _decode_text(data: bytes) -> tuple[str, bool]:
    """Decode text. Also return whether all of it could be decoded."""
    text = data.decode("utf-8", "replace")
    return text, "\ufffd" not in text or text.encode("utf-8") == data


def has_rule_folder(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in RULE_FOLDERS)


def read_with_imports(
    path: Path,
    title: str,
    allowed_folders: tuple[Path, ...],
    reader: InstructionReader,
    importers: tuple[Path, ...] = (),
) -> list[InstructionFile]:
    """Read a file and all files that it imports. `title`: the title under which the file is shown. The text of an
    unreadable file is replaced by the reason. `allowed_folders`: nothing outside these folders is read."""
    try:
        real_path = _resolve_path(path)
        if real_path in importers:
            raise UnreadableFileError("it imports itself")
        if len(importers) > MAX_IMPORT_DEPTH:
            raise UnreadableFileError(f"imports are nested more than {MAX_IMPORT_DEPTH} levels deep")
        if not any(real_path.is_relative_to(folder.resolve()) for folder in allowed_folders):
            raise UnreadableFileError("it is outside the project")
        if real_path in reader.seen_paths:
            return []
        text = reader.read(real_path)
    except UnreadableFileError as error:
        reader.problems.append(f"`{path}` is skipped: {error}")
        return [InstructionFile(str(path), f"{title}\n\n[skipped: {error}]", "")]
    reader.seen_paths.add(real_path)
    if text in reader.seen_texts:
        return []
    reader.seen_texts.add(text)
    files = [InstructionFile(str(path), f"{title}\n\n{text}", text)]
    for name in _imported_names(text, real_path.parent):
        imported_path = _resolve_import(name, real_path.parent)
        files += read_with_imports(
            imported_path, f"# {imported_path}, imported by {path}", allowed_folders, reader, (*importers, real_path)
        )
    return files


def _imported_names(text: str, folder: Path) -> Iterator[str]:
    """Yield the paths that follow an `@` outside code and comments. A path that is not alone on its line only counts if
    it exists or has the suffix of a text file, because `@name` may be a person or a package, and `@app.route` a
    decorator.
    """
    plain = _CODE_OR_COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for line in plain.splitlines():
        for match in _IMPORT.finditer(line):
            import_path = match["path"].replace("\\ ", " ")
            import_path = import_path if _IMPORT_LINE.match(line) else import_path.rstrip(".,;:!?)\"'")
            if import_path and (
                _IMPORT_LINE.match(line)
                or Path(import_path).suffix in _TEXT_SUFFIXES
                or os.path.isfile(_resolve_import(import_path, folder))
            ):
                yield import_path


def _resolve_import(written_path: str, folder: Path) -> Path:
    try:
        path = Path(written_path).expanduser()
    except RuntimeError:  # `~NAME` of a user who does not exist
        path = Path(written_path)
    return folder / path


def _resolve_path(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a cycle of links, or a name that is too long or invalid
        raise UnreadableFileError("no such file") from error
