"""File name patterns such as `src/**/*.{ts,tsx}`. Pure."""

import fnmatch
import re
from collections.abc import Callable
from itertools import product

from ebbtide.tools.lazy import dataclass, regex

MAX_ALTERNATIVES = 256

_BRACES = regex(r"\{([^{}]*,[^{}]*)\}")
_WILDCARD = regex(r"[*?\[{]")


class GlobError(ValueError):
    """A pattern is invalid; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class GlobPattern:
    folder: str
    """The fixed part before the first wildcard, where the search starts; empty for the searched folder itself."""
    matches: Callable[[str], bool]
    """Whether a path relative to `folder` matches."""

    def covers(self, path: str) -> bool:
        """Whether a path relative to the searched folder matches."""
        folder = self.folder.removeprefix("./").rstrip("/")
        if not folder or folder == ".":
            return self.matches(path)
        return path.startswith(folder + "/") and self.matches(path[len(folder) + 1 :])


def parse_glob(pattern: str) -> GlobPattern:
    """Parse a pattern. A pattern without `/` matches names at any depth. Raises `GlobError`."""
    if not pattern or "\0" in pattern:
        raise GlobError("the pattern is empty or contains a NUL character")
    folder, rest = _split(pattern)
    if ".." in rest.split("/"):
        raise GlobError("`..` cannot follow a wildcard: begin the pattern with it, or give `path`")
    anchored = "/" in pattern
    alternatives = [_compile_parts(alternative, anchored) for alternative in _expand_braces(rest)]
    return GlobPattern(folder, lambda path: _matches_any(alternatives, path.split("/")))


def _split(pattern: str) -> tuple[str, str]:
    """Return the fixed folder and the remaining pattern, which contains at least the last component."""
    parts = pattern.split("/")
    fixed_count = 0
    while fixed_count < len(parts) - 1 and not _WILDCARD.search(parts[fixed_count]):
        fixed_count += 1
    folder = "/".join(parts[:fixed_count])
    return ("/" if fixed_count and not folder else folder), "/".join(parts[fixed_count:])


def _expand_braces(pattern: str) -> list[str]:
    """Expand the `{a,b}` groups of a pattern, innermost first."""
    patterns = [pattern]
    while any(_BRACES.search(one) for one in patterns):
        patterns = [each for one in patterns for each in _expanded_once(one)]
        if len(patterns) > MAX_ALTERNATIVES:
            raise GlobError(f"`{{…}}` groups give more than {MAX_ALTERNATIVES} alternatives: use a wider pattern")
    return patterns


def _expanded_once(pattern: str) -> list[str]:
    pieces = _BRACES.split(pattern)
    if 2 ** (len(pieces) // 2) > MAX_ALTERNATIVES:
        raise GlobError(f"`{{…}}` groups give more than {MAX_ALTERNATIVES} alternatives: use a wider pattern")
    choices = [piece.split(",") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*choices)]


def _compile_parts(pattern: str, anchored: bool) -> list[re.Pattern[str] | None]:
    """Return an expression for each path component; None for `**`."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not anchored:
        parts = ["**", *parts]
    if parts and parts[-1] == "**":
        parts = [*parts, "*"]
    parts = [part for at, part in enumerate(parts) if part != "**" or parts[at - 1 : at] != ["**"]]
    return [None if part == "**" else re.compile(_name_expression(part)) for part in parts]


def _name_expression(part: str) -> str:
    """Return the expression for a name. If a name is written with brackets, such as `[id]` in Next.js, it also matches
    literally."""
    pattern = fnmatch.translate(part.replace("[^", "[!"))
    return f"{re.escape(part.replace(chr(92), ''))}\\Z|{pattern}" if "[" in part else pattern


def _matches_any(alternatives: list[list[re.Pattern[str] | None]], names: list[str]) -> bool:
    return any(_matches_parts(parts, names) for parts in alternatives)


def _matches_parts(parts: list[re.Pattern[str] | None], names: list[str]) -> bool:
    """Whether the parts match all of the names. Keeps track, name by name, of how many parts may have been matched."""
    reached = _with_skipped_wildcards({0}, parts)
    for name in names:
        following = set()
        for at in reached:
            if at < len(parts):
                part = parts[at]
                if part is None:
                    following.add(at)
                elif part.match(name):
                    following.add(at + 1)
        reached = _with_skipped_wildcards(following, parts)
    return len(parts) in reached


def _with_skipped_wildcards(reached: set[int], parts: list[re.Pattern[str] | None]) -> set[int]:
    """Return the positions together with those reached by skipping `**`, which may also match zero folders."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(parts) and parts[at] is None:
            at += 1
            found.add(at)
    return found
