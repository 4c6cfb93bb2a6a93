"""Rules of other programs, one file each, whose front matter says which files they apply to: `.cursor/rules`,
`.github/instructions`, `.claude/rules`. Some always apply, some apply to files that match patterns, and some are only
offered to the model."""

import os.path
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.context.prompt import InstructionFile
from ebbtide.agent.extensions.extension_files import UnusableFile, files_below
from ebbtide.agent.extensions.front_matter import BrokenFrontMatter, split, text_at
from ebbtide.agent.input.instruction_files import RULE_FOLDERS, InstructionReader, UnreadableFile
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.search.globs import GlobError, GlobPattern, parse

Scope: TypeAlias = Literal["always", "matching", "offered", "never"]

_ENDINGS = {
    ".cursor/rules": (".mdc", "RULE.md"),
    ".github/instructions": (".instructions.md",),
    ".claude/rules": (".md",),
}
_PATTERNS_AT = {".cursor/rules": "globs", ".github/instructions": "applyTo", ".claude/rules": "paths"}
_EVERYTHING = {"**", "**/*", "*"}
_COMMA = re.compile(r",(?![^{]*\})")
MAX_RULES = 200
"""Maximum number of rules in one folder."""
MAX_DESCRIPTION_CHARS = 300


@dataclass(frozen=True, slots=True)
class ScopedRule:
    """One file of rules."""

    path: Path
    folder: Path
    """The folder that its patterns are relative to."""
    scope: Scope
    patterns: tuple[str, ...]
    description: str
    body: str
    text: str
    """The whole file, front matter included."""
    globs: tuple[GlobPattern, ...] = ()

    def covers(self, path: Path) -> bool:
        """Whether its patterns match a file."""
        if not path.is_relative_to(self.folder):
            return False
        name = path.relative_to(self.folder).as_posix()
        return any(glob.covers(name) for glob in self.globs)

    @property
    def section(self) -> InstructionFile:
        """The text that the model sees."""
        named = f", for {', '.join(self.patterns)}" if self.scope == "matching" else ""
        text = f"# Rules from {self.path}{named}\n\n{self.body}"
        if self.scope == "offered":
            text = f"# Rules to read when they are needed: {self.path}\n\n{self.description}"
        return InstructionFile(str(self.path), text, self.text)


def rules_in(folder: Path, boundary: Path, reader: InstructionReader) -> tuple[ScopedRule, ...]:
    """Return the rules of a folder, sorted by name. Nothing outside `boundary` is read; problems are added to
    `reader.problems`."""
    return tuple(rule for name in RULE_FOLDERS for rule in _rules(folder, name, boundary, reader))


def _rules(folder: Path, name: str, boundary: Path, reader: InstructionReader) -> Iterator[ScopedRule]:
    try:
        paths = [path for path in files_below(folder / name, boundary) if path.name.endswith(_ENDINGS[name])]
    except UnusableFile as reason:
        reader.problems.append(str(reason))
        return
    if len(paths) > MAX_RULES:
        reader.problems.append(f"`{folder / name}` contains {len(paths)} files; only the first {MAX_RULES} are used")
    for path in paths[:MAX_RULES]:
        try:
            rule = _rule(path, folder, name, boundary, reader)
        except (UnreadableFile, BrokenFrontMatter, GlobError) as reason:
            reader.problems.append(f"`{path}` is left out: {reason}")
            continue
        if rule is not None:
            yield rule


def _rule(path: Path, folder: Path, name: str, boundary: Path, reader: InstructionReader) -> ScopedRule | None:
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(boundary)):
        raise UnreadableFile("it is outside the project")
    left = reader.left
    text = reader.read(path)
    reader.left = left  # it is counted when it is used
    head, body = split(text)
    patterns = _patterns(head.get(_PATTERNS_AT[name]))
    description = ellipsize(text_at(head, "description"), MAX_DESCRIPTION_CHARS)
    is_always = str(head.get("alwaysApply", "")).lower() == "true" or bool(_EVERYTHING & set(patterns))
    scope: Scope = "always" if is_always or (name == ".claude/rules" and not patterns) else "matching"
    if scope == "matching" and not patterns:
        scope = "offered" if description else "never"
    globs = tuple(parse(pattern) for pattern in patterns) if scope == "matching" else ()
    return ScopedRule(path, folder, scope, patterns, description, body.strip(), text, globs) if body.strip() else None


def _patterns(written: object) -> tuple[str, ...]:
    """Return the patterns of a list or of a comma-separated text."""
    parts = written if isinstance(written, list) else _COMMA.split(written) if isinstance(written, str) else []
    found = (str(part).strip().strip("\"'").removeprefix("./").removeprefix("/") for part in parts)
    return tuple(f"{one}**" if one.endswith("/") else one for one in found if one)
