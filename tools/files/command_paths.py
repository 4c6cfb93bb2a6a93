"""Finds the sensitive paths that a command line names: files with secrets, files that other programs run or read
automatically, and link targets."""

import os
import posixpath
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING

from ebbtide.tools import commands
from ebbtide.tools.files.autorun import AUTORUN_NAMES, AUTORUN_PREFIXES, AUTORUN_SUFFIXES, autorun_reason
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.files import (
    SECRET_NAME_PARTS,
    SECRET_NAMES,
    SECRET_PREFIXES,
    SECRET_SUFFIXES,
    may_contain_secrets,
)

if TYPE_CHECKING:  # imported only for its type
    from ebbtide.tools.commands.named_files import NamedFile

_SENSITIVE_NAMES = AUTORUN_NAMES | SECRET_NAMES
_SENSITIVE_SUFFIXES = AUTORUN_SUFFIXES + SECRET_SUFFIXES
_SENSITIVE_PREFIXES = AUTORUN_PREFIXES + SECRET_PREFIXES
_MAX_LISTED_NAMES = 2_000
"""Maximum number of names in a folder that are matched against a pattern."""
_LONG_LINE_CHARS, _MAX_LOOKUPS_IN_LONG = 2_000, 20
"""A line with more than `_LONG_LINE_CHARS` characters counts as long. In a long line, at most `_MAX_LOOKUPS_IN_LONG`
names are looked up. The limit does not apply to possible secret files, or if the line changes files. A long line is
never treated as read-only, so its link targets do not matter."""
_MAX_LOOKUPS = 30
"""Maximum number of sensitive names looked up per line; each takes about ten microseconds."""
_NAME_PASSING_WORDS = ("xargs", "parallel", "find", "for")
"""A line in which one program passes names to another contains at least one of these words."""


@dataclass(frozen=True, slots=True)
class CommandPaths:
    """The sensitive paths that a line names, absolute and resolved."""

    secret_files: tuple[str, ...] = ()
    """Files that the command might show and whose names suggest passwords or keys."""
    autorun_files: tuple[str, ...] = ()
    """Files that the command changes and that other programs run or read automatically."""
    link_targets: tuple[str, ...] = ()
    """Targets of links that the command reads."""
    is_incomplete: bool = False
    """Whether the line is too long to analyse, or names too many files to look them all up."""


def find_command_paths(line: str, root: str) -> CommandPaths:
    """Return the sensitive paths of a command line. `root`: the working folder, absolute and resolved."""
    secret_files, autorun_files, link_targets = dict[str, None](), dict[str, None](), dict[str, None]()
    is_unparsable = commands.grammar.parse_command_line(line).is_unparsable
    if is_unparsable and len(commands.line_limits.without_heredoc_bodies(line)) > _LONG_LINE_CHARS:
        return CommandPaths(is_incomplete=True)
    files, is_complete = commands.named_files.find_all_named_files(line)
    passes_names = any(word in line for word in _NAME_PASSING_WORDS) and commands.named_files.passes_printed_names(line)
    if not is_complete or passes_names:
        parsed_paths = {file.path for file in files}
        mentioned_files = (
            file
            for file in _find_sensitive_mentions(line)
            if file.path not in parsed_paths and not (is_complete and file.is_changed)
        )
        files = (*files, *mentioned_files)
    if len(line) > _LONG_LINE_CHARS and len(files) > _MAX_LOOKUPS_IN_LONG and not _may_be_sensitive(line, files):
        files = files[:_MAX_LOOKUPS_IN_LONG]
    if len(files) > _MAX_LOOKUPS:
        secrets = _possible_secret_files(files)
        relevant_files = (file for file in files if file.is_changed or file.is_glob or file.is_certain)
        files = (*secrets, *(file for file in relevant_files if file not in secrets))
    links = dict[str, bool]()
    exceeds_limit = len(files) > _MAX_LOOKUPS
    for file in files[:_MAX_LOOKUPS]:
        if is_unparsable and (secret_files or autorun_files):
            break  # such a line always needs approval: one path is enough
        if file.required_folder and not os.path.isdir(posixpath.join(root, os.path.expanduser(file.required_folder))):
            continue
        for named_path in _expand_globs(file, root):
            absolute = posixpath.join(root, os.path.expanduser(named_path))
            normalised = posixpath.normpath(absolute)
            path = _resolve(normalised, links) if ".." not in absolute.split("/") else _resolve_with_parents(absolute)
            candidates = (path,) if path == normalised else (path, normalised)
            if file.is_changed:
                autorun_files.update(
                    dict.fromkeys([candidate for candidate in candidates if autorun_reason(candidate, root)][:1])
                )
            elif secret_candidates := [candidate for candidate in candidates if may_contain_secrets(candidate)]:
                secret_files[secret_candidates[0]] = None
            elif file.is_certain and path != normalised:
                link_targets[path] = None
    return CommandPaths(tuple(secret_files), tuple(autorun_files), tuple(link_targets), exceeds_limit)


def _find_sensitive_mentions(line: str) -> "Iterator[NamedFile]":
    """Yield the words that look like sensitive files in a line that was only partly parsed, so that padding cannot hide
    them."""
    text = _without_quoting(commands.line_limits.without_heredocs_exact(line))
    folded_text = text.casefold()
    suffixes, prefixes = (
        tuple(affix for affix in affixes if affix in folded_text)
        for affixes in (_SENSITIVE_SUFFIXES, _SENSITIVE_PREFIXES)
    )
    names = set(_blank_out_operators(folded_text).replace("/", " ").split())
    sensitive_names = names & _SENSITIVE_NAMES
    sensitive_names |= (
        {name for name in names if name.endswith(suffixes) or name.startswith(prefixes)}
        if suffixes or prefixes
        else set()
    )
    name_parts = (*(sensitive_names & _SENSITIVE_NAMES), *suffixes, *prefixes)
    candidates = (
        word
        for word in dict.fromkeys(_blank_out_operators(text).split())
        if any(name_part in word.casefold() for name_part in name_parts)
    )
    mentioned = (word for word in candidates if not sensitive_names.isdisjoint(word.casefold().split("/")))
    for word in islice(mentioned, _MAX_LOOKUPS + 1) if sensitive_names else ():
        yield commands.named_files.NamedFile(word, is_changed=not may_contain_secrets(word))


def _without_quoting(text: str) -> str:
    """Remove quoting characters from the line, because they could split a name."""
    for quote in "\\'\"":
        text = text.replace(quote, "")
    return text


def _blank_out_operators(text: str) -> str:
    for operator in ";&|()`<>{}$=,":
        text = text.replace(operator, " ")
    return text


def _may_be_sensitive(line: str, files: "Sequence[NamedFile]") -> bool:
    folded_line = line.casefold()
    return any(file.is_changed or file.is_glob for file in files) or any(
        name_part in folded_line for name_part in SECRET_NAME_PARTS
    )


def _possible_secret_files(files: "Sequence[NamedFile]") -> "Collection[NamedFile]":
    folded_paths = "\n".join(file.path for file in files).casefold()
    name_parts = [name_part for name_part in SECRET_NAME_PARTS if name_part in folded_paths]  # usually empty
    candidates = (file for file in files if any(name_part in file.path.casefold() for name_part in name_parts))
    return set(candidates if name_parts else ())


def _resolve_with_parents(path: str) -> str:
    """Resolve a path in which `..` may follow a link. `..` is then relative to the link's target."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return posixpath.normpath(path)


def _resolve(path: str, links: dict[str, bool]) -> str:
    """Resolve a path. `links` caches which folders are links."""
    folder = path.rpartition("/")[0]
    try:
        if folder not in links:
            links[folder] = os.path.islink(folder)
        return os.path.realpath(path) if links[folder] or os.path.lexists(path) else path
    except (OSError, ValueError):  # an invalid name, or a link replaced while it is resolved
        return path


def _matching_sensitive_name(pattern: str) -> str:
    """Return a sensitive name that the pattern matches, or else the pattern itself. A leading dot is matched only by a
    pattern that begins with one."""
    if pattern[:1] != "." or not any(wildcard in pattern for wildcard in "*?["):
        return pattern
    return next((name for name in sorted(_SENSITIVE_NAMES) if fnmatchcase(name, pattern)), pattern)


def _expand_globs(file: "NamedFile", root: str) -> Iterator[str]:
    """Yield the path as written and, if it is a pattern, the paths that it matches."""
    yield file.path
    folder, pattern = posixpath.split(file.path)
    if file.is_glob and any(wildcard in folder for wildcard in "*?["):
        yield "/".join(map(_matching_sensitive_name, file.path.split("/")))
    if file.is_glob and pattern and not any(wildcard in folder for wildcard in "*?["):
        try:
            names = os.listdir(posixpath.join(root, folder))[:_MAX_LISTED_NAMES]
        except (OSError, ValueError):
            return
        yield from (posixpath.join(folder, name) for name in names if fnmatchcase(name, pattern))
