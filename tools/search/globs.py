"""File name patterns such as `src/**/*.{ts,tsx}`. No I/O."""

import fnmatch
import re
from collections.abc import Callable
from itertools import product

from ebbtide.tools.lazy import dataclass, regex

MAX_ALTERNATIVES = 256
_MAX_KNOWN_FOLDERS = 10_000
"""Maximum number of folders of which a pattern keeps what it knows."""

_BRACES = regex(r"\{([^{}]*,[^{}]*)\}")
_WILDCARD = regex(r"[*?\[{]")


class GlobError(ValueError):
    """Raised if a pattern is invalid. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class GlobPattern:
    folder: str
    """The fixed part before the first wildcard, where the search starts; empty for the searched folder itself."""
    matches: Callable[[str], bool]
    """Whether a path relative to `folder` matches."""

    def matches_path_or_parent(self, path: str) -> bool:
        """Whether a path relative to the searched folder matches."""
        folder = self.folder.removeprefix("./").rstrip("/")
        if not folder or folder == ".":
            return self.matches(path)
        return path.startswith(folder + "/") and self.matches(path[len(folder) + 1 :])


def parse_glob(pattern: str) -> GlobPattern:
    """Parse a pattern. A pattern without `/` matches names at any depth. Raises `GlobError`."""
    if not pattern or "\0" in pattern:
        raise GlobError("the pattern is empty or contains a NUL character")
    folder, relative_pattern = _split(pattern)
    if ".." in relative_pattern.split("/"):
        raise GlobError("`..` cannot follow a wildcard: begin the pattern with it, or give `path`")
    is_anchored = "/" in pattern
    alternatives = [_compile_components(alternative, is_anchored) for alternative in _expand_braces(relative_pattern)]
    return GlobPattern(folder, _PathMatcher(alternatives).matches)


def _split(pattern: str) -> tuple[str, str]:
    """Split off the fixed folder from the rest of the pattern, which keeps at least the last component."""
    components = pattern.split("/")
    fixed_count = 0
    while fixed_count < len(components) - 1 and not _WILDCARD.search(components[fixed_count]):
        fixed_count += 1
    folder = "/".join(components[:fixed_count])
    return ("/" if fixed_count and not folder else folder), "/".join(components[fixed_count:])


def _expand_braces(pattern: str) -> list[str]:
    """Expand the `{a,b}` groups of a pattern, innermost first."""
    patterns = [pattern]
    while any(_BRACES.search(unexpanded) for unexpanded in patterns):
        patterns = [expanded for unexpanded in patterns for expanded in _expand_once(unexpanded)]
        if len(patterns) > MAX_ALTERNATIVES:
            raise GlobError(f"`{{…}}` groups give more than {MAX_ALTERNATIVES} alternatives: use a wider pattern")
    return patterns


def _expand_once(pattern: str) -> list[str]:
    pieces = _BRACES.split(pattern)
    if 2 ** (len(pieces) // 2) > MAX_ALTERNATIVES:
        raise GlobError(f"`{{…}}` groups give more than {MAX_ALTERNATIVES} alternatives: use a wider pattern")
    choices = [piece.split(",") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return ["".join(combination) for combination in product(*choices)]


def _compile_components(pattern: str, is_anchored: bool) -> list[re.Pattern[str] | None]:
    """Compile a regular expression for each path component. None means `**`."""
    components = [component for component in pattern.split("/") if component not in ("", ".")]
    if not is_anchored:
        components = ["**", *components]
    if components and components[-1] == "**":
        components = [*components, "*"]
    components = [
        component
        for index, component in enumerate(components)
        if component != "**" or components[index - 1 : index] != ["**"]
    ]
    return [None if component == "**" else re.compile(_component_regex(component)) for component in components]


def _component_regex(component: str) -> str:
    """Build the regular expression for one path component. Brackets also match literally, as for `[id]` in Next.js."""
    pattern = fnmatch.translate(component.replace("[^", "[!"))
    return f"{re.escape(component.replace(chr(92), ''))}\\Z|{pattern}" if "[" in component else pattern


class _PathMatcher:
    """Matches paths against alternative patterns. What is known of a folder is kept for the other paths in it."""

    def __init__(self, alternatives: list[list[re.Pattern[str] | None]]) -> None:
        self._alternatives = alternatives
        self._name_patterns: dict[str, re.Pattern[str] | None] = {}
        """For each folder, what a name in it must match; None if no name can match."""

    def matches(self, path: str) -> bool:
        folder, slash, name = path.rpartition("/")
        try:
            name_pattern = self._name_patterns[folder + slash]
        except KeyError:
            name_pattern = self._add_folder(folder + slash)
        return name_pattern is not None and name_pattern.match(name) is not None

    def _add_folder(self, folder: str) -> re.Pattern[str] | None:
        names = folder.split("/")[:-1]
        last_patterns = [
            patterns[-1] for patterns in self._alternatives if patterns and _matches_folder(patterns, names)
        ]
        alternatives = [f"(?:{pattern.pattern})" for pattern in last_patterns if pattern is not None]
        if len(self._name_patterns) >= _MAX_KNOWN_FOLDERS:
            self._name_patterns.clear()
        name_pattern = self._name_patterns[folder] = re.compile("|".join(alternatives)) if alternatives else None
        return name_pattern


def _matches_folder(patterns: list[re.Pattern[str] | None], names: list[str]) -> bool:
    """Whether all of the patterns but the last match the names. Goes through the names and keeps track of how many
    patterns may have matched so far."""
    indices = _with_skipped_wildcards({0}, patterns)
    for name in names:
        next_indices = set()
        for index in indices:
            if index < len(patterns):
                component_pattern = patterns[index]
                if component_pattern is None:
                    next_indices.add(index)
                elif component_pattern.match(name):
                    next_indices.add(index + 1)
        indices = _with_skipped_wildcards(next_indices, patterns)
    return len(patterns) - 1 in indices


def _with_skipped_wildcards(indices: set[int], patterns: list[re.Pattern[str] | None]) -> set[int]:
    """Return the indices, plus those reached by skipping `**`, which may match zero folders."""
    extended = set(indices)
    for index in sorted(indices):
        while index < len(patterns) and patterns[index] is None:
            index += 1
            extended.add(index)
    return extended
