"""Rule files of other programs, in `.cursor/rules`, `.github/instructions` and `.claude/rules`. The front matter of a
rule says which files it applies to. Some always apply, some apply to files that match patterns, and some are only
listed for the model to read."""

import os.path
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.extensions.extension_files import UnusableFileError, list_files_below
from ebbtide.agent.extensions.front_matter import FrontMatterError, one_line_value, split_front_matter
from ebbtide.agent.input.instruction_files import RULE_FOLDERS, InstructionReader, UnreadableFileError
from ebbtide.agent.prompt.build import InstructionFile
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.search.globs import GlobError, GlobPattern, parse_glob

RuleScope: TypeAlias = Literal["always", "matching", "listed", "never"]
"""When a rule is shown: in every session, with files that match its patterns, only as a line that names it, or
never."""

_RULE_FILE_SUFFIXES = {
    ".cursor/rules": (".mdc", "RULE.md"),
    ".github/instructions": (".instructions.md",),
    ".claude/rules": (".md",),
}
_PATTERN_KEYS = {".cursor/rules": "globs", ".github/instructions": "applyTo", ".claude/rules": "paths"}
_MATCH_ALL_PATTERNS = {"**", "**/*", "*"}
_PATTERN_SEPARATOR = re.compile(r",(?![^{]*\})")
MAX_RULES_PER_FOLDER = 200
"""Maximum number of rules in one folder."""
MAX_DESCRIPTION_CHARS = 300


@dataclass(frozen=True, slots=True)
class ScopedRule:
    """A file with one rule."""

    path: Path
    base_folder: Path
    """The folder that the rule's patterns are relative to."""
    scope: RuleScope
    patterns: tuple[str, ...]
    description: str
    body: str
    text: str
    """The full text of the file, including its front matter."""
    globs: tuple[GlobPattern, ...] = ()

    def applies_to(self, path: Path) -> bool:
        """Whether any pattern matches the file."""
        if not path.is_relative_to(self.base_folder):
            return False
        relative_path = path.relative_to(self.base_folder).as_posix()
        return any(glob.matches_path_or_parent(relative_path) for glob in self.globs)

    @property
    def section(self) -> InstructionFile:
        """The rule as a section for the model: its body, or only its description if its scope is `listed`."""
        pattern_suffix = f", for {', '.join(self.patterns)}" if self.scope == "matching" else ""
        text = f"# Rules from {self.path}{pattern_suffix}\n\n{self.body}"
        if self.scope == "listed":
            text = f"# Rules to read when they are needed: {self.path}\n\n{self.description}"
        return InstructionFile(str(self.path), text, self.text)


def read_rules(folder: Path, boundary: Path, reader: InstructionReader) -> tuple[ScopedRule, ...]:
    """Read the rules of a folder, sorted by name within each rule folder. Files outside `boundary` are not read;
    problems are added to `reader.problems`."""
    return tuple(rule for name in RULE_FOLDERS for rule in _read_rule_folder(folder, name, boundary, reader))


def _read_rule_folder(
    folder: Path, rule_folder_name: str, boundary: Path, reader: InstructionReader
) -> Iterator[ScopedRule]:
    try:
        paths = [
            path
            for path in list_files_below(folder / rule_folder_name, boundary)
            if path.name.endswith(_RULE_FILE_SUFFIXES[rule_folder_name])
        ]
    except UnusableFileError as error:
        reader.problems.append(str(error))
        return
    if len(paths) > MAX_RULES_PER_FOLDER:
        reader.problems.append(
            f"`{folder / rule_folder_name}` contains {len(paths)} files; only the first {MAX_RULES_PER_FOLDER} are used"
        )
    for path in paths[:MAX_RULES_PER_FOLDER]:
        try:
            rule = _read_rule(path, folder, rule_folder_name, boundary, reader)
        except (UnreadableFileError, FrontMatterError, GlobError) as error:
            reader.problems.append(f"`{path}` is skipped: {error}")
            continue
        if rule is not None:
            yield rule


def _read_rule(
    path: Path, folder: Path, rule_folder_name: str, boundary: Path, reader: InstructionReader
) -> ScopedRule | None:
    real_path = Path(os.path.realpath(path))
    if not real_path.is_relative_to(os.path.realpath(boundary)):
        raise UnreadableFileError("it is outside the project")
    remaining_before = reader.remaining_bytes
    text = reader.read(path)
    reader.remaining_bytes = remaining_before  # The size is counted only if the rule is used.
    front_matter, body = split_front_matter(text)
    patterns = _split_patterns(front_matter.get(_PATTERN_KEYS[rule_folder_name]))
    description = ellipsize(one_line_value(front_matter, "description"), MAX_DESCRIPTION_CHARS)
    always_applies = str(front_matter.get("alwaysApply", "")).lower() == "true" or bool(
        _MATCH_ALL_PATTERNS & set(patterns)
    )
    scope: RuleScope = (
        "always" if always_applies or (rule_folder_name == ".claude/rules" and not patterns) else "matching"
    )
    if scope == "matching" and not patterns:
        scope = "listed" if description else "never"
    globs = tuple(parse_glob(pattern) for pattern in patterns) if scope == "matching" else ()
    return ScopedRule(path, folder, scope, patterns, description, body.strip(), text, globs) if body.strip() else None


def _split_patterns(value: object) -> tuple[str, ...]:
    """Split patterns given as a list or as a comma-separated string."""
    items = value if isinstance(value, list) else _PATTERN_SEPARATOR.split(value) if isinstance(value, str) else []
    patterns = (str(item).strip().strip("\"'").removeprefix("./").removeprefix("/") for item in items)
    return tuple(f"{pattern}**" if pattern.endswith("/") else pattern for pattern in patterns if pattern)
