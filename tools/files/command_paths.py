"""The sensitive paths that a command names, absolute and resolved: files with secrets, files that other programs run or
read automatically, and targets of links."""

import os
import posixpath
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.line_limits import without_heredoc_bodies, without_heredoc_texts
from ebbtide.tools.commands.named_files import NamedFile, all_named_files, passes_names_on
from ebbtide.tools.files.autorun import AUTORUN_NAMES, AUTORUN_PREFIXES, AUTORUN_SUFFIXES, autorun_reason
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.files import (
    SECRET_NAME_PARTS,
    SECRET_NAMES,
    SECRET_PREFIXES,
    SECRET_SUFFIXES,
    may_contain_secrets,
)

_SENSITIVE_NAMES, _SENSITIVE_SUFFIXES, _SENSITIVE_PREFIXES = (
    AUTORUN_NAMES | SECRET_NAMES,
    AUTORUN_SUFFIXES + SECRET_SUFFIXES,
    AUTORUN_PREFIXES + SECRET_PREFIXES,
)
_MAX_LISTED_NAMES = 2_000
"""Maximum number of names in a folder that are matched against a pattern."""
_LONG_LINE_CHARS, _MAX_LOOKUPS_IN_LONG = 2_000, 20
"""Length in characters above which a line is long, and number of names that are looked up in a long line. More names
are looked up only if one of them may be a secret file or the line changes files. Link targets matter only for lines
that are proved read-only, which a long line never is."""
_MAX_LOOKUPS = 30
"""Maximum number of sensitive names looked up per line; each takes about ten microseconds."""
_NAME_PASSING_WORDS = ("xargs", "parallel", "find", "for")
"""A line in which one program passes names to another contains at least one of these words."""


@dataclass(frozen=True, slots=True)
class CommandPaths:
    """The sensitive paths of a line, absolute and resolved."""

    secret_files: tuple[str, ...] = ()
    """Files that the command may show and whose names suggest passwords or keys."""
    autorun_files: tuple[str, ...] = ()
    """Files that the command changes and that other programs run or read automatically."""
    link_targets: tuple[str, ...] = ()
    """Targets of links that the command reads."""
    is_incomplete: bool = False
    """Whether the line is too long to analyse, or names more files than are looked up."""


def command_paths(line: str, root: str) -> CommandPaths:
    """Return the sensitive paths of a command line. `root`: the working folder, absolute and resolved."""
    secret, obeyed, led = dict[str, None](), dict[str, None](), dict[str, None]()
    is_broken = parse_command_line(line).is_unparsable
    if is_broken and len(without_heredoc_bodies(line)) > _LONG_LINE_CHARS:
        return CommandPaths(is_incomplete=True)
    files, is_complete = all_named_files(line)
    passes_names = any(sign in line for sign in _NAME_PASSING_WORDS) and passes_names_on(line)
    if not is_complete or passes_names:
        known = {file.path for file in files}
        more = (
            file
            for file in _sensitive_mentions(line)
            if file.path not in known and not (is_complete and file.is_changed)
        )
        files = (*files, *more)
    if len(line) > _LONG_LINE_CHARS and len(files) > _MAX_LOOKUPS_IN_LONG and not _may_be_sensitive(line, files):
        files = files[:_MAX_LOOKUPS_IN_LONG]
    if len(files) > _MAX_LOOKUPS:
        secrets = _possible_secret_files(files)
        others = (file for file in files if file.is_changed or file.is_glob or file.is_certain)
        files = (*secrets, *(file for file in others if file not in secrets))
    links = dict[str, bool]()
    is_cut = len(files) > _MAX_LOOKUPS
    for file in files[:_MAX_LOOKUPS]:
        if is_broken and (secret or obeyed):
            break  # such a line always needs approval: one path is enough
        if file.required_folder and not os.path.isdir(posixpath.join(root, os.path.expanduser(file.required_folder))):
            continue
        for written in _expand_globs(file, root):
            absolute = posixpath.join(root, os.path.expanduser(written))
            normalised = posixpath.normpath(absolute)
            path = _resolve(normalised, links) if ".." not in absolute.split("/") else _resolve_with_parents(absolute)
            both = (path,) if path == normalised else (path, normalised)
            if file.is_changed:
                obeyed.update(dict.fromkeys([one for one in both if autorun_reason(one, root)][:1]))
            elif found := [one for one in both if may_contain_secrets(one)]:
                secret[found[0]] = None
            elif file.is_certain and path != normalised:
                led[path] = None
    return CommandPaths(tuple(secret), tuple(obeyed), tuple(led), is_cut)


def _sensitive_mentions(line: str) -> Iterator[NamedFile]:
    """Yield the words that look like sensitive files in a line that was not parsed completely, so that filler cannot
    hide them."""
    text = _without_quoting(without_heredoc_texts(line))
    small = text.casefold()
    ends, starts = (
        tuple(sign for sign in signs if sign in small) for signs in (_SENSITIVE_SUFFIXES, _SENSITIVE_PREFIXES)
    )
    names = set(_blank_out_operators(small).replace("/", " ").split())
    found = names & _SENSITIVE_NAMES
    found |= {name for name in names if name.endswith(ends) or name.startswith(starts)} if ends or starts else set()
    signs = (*(found & _SENSITIVE_NAMES), *ends, *starts)
    likely = (
        word
        for word in dict.fromkeys(_blank_out_operators(text).split())
        if any(sign in word.casefold() for sign in signs)
    )
    mentioned = (word for word in likely if not found.isdisjoint(word.casefold().split("/")))
    for word in islice(mentioned, _MAX_LOOKUPS + 1) if found else ():
        yield NamedFile(word, is_changed=not may_contain_secrets(word))


def _without_quoting(text: str) -> str:
    """Return the line without quoting characters, which could split a name."""
    for sign in "\\'\"":
        text = text.replace(sign, "")
    return text


def _blank_out_operators(text: str) -> str:
    for sign in ";&|()`<>{}$=,":
        text = text.replace(sign, " ")
    return text


def _may_be_sensitive(line: str, files: Sequence[NamedFile]) -> bool:
    small = line.casefold()
    return any(file.is_changed or file.is_glob for file in files) or any(sign in small for sign in SECRET_NAME_PARTS)


def _possible_secret_files(files: Sequence[NamedFile]) -> Collection[NamedFile]:
    small = "\n".join(file.path for file in files).casefold()
    signs = [sign for sign in SECRET_NAME_PARTS if sign in small]  # usually empty
    likely = (file for file in files if any(sign in file.path.casefold() for sign in signs))
    return set(likely if signs else ())


def _resolve_with_parents(path: str) -> str:
    """Resolve a path in which `..` may follow a link; it is then relative to the link's target."""
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


def _autorun_name(part: str) -> str:
    """Return a sensitive name that the pattern may match; if there is none, the pattern itself. A pattern matches a
    leading dot only if it begins with one."""
    if part[:1] != "." or not any(sign in part for sign in "*?["):
        return part
    return next((name for name in sorted(_SENSITIVE_NAMES) if fnmatchcase(name, part)), part)


def _expand_globs(file: NamedFile, root: str) -> Iterator[str]:
    """Yield the name as it is and, if it is a pattern, the names that it matches."""
    yield file.path
    folder, pattern = posixpath.split(file.path)
    if file.is_glob and any(sign in folder for sign in "*?["):
        yield "/".join(map(_autorun_name, file.path.split("/")))
    if file.is_glob and pattern and not any(sign in folder for sign in "*?["):
        try:
            names = os.listdir(posixpath.join(root, folder))[:_MAX_LISTED_NAMES]
        except (OSError, ValueError):
            return
        yield from (posixpath.join(folder, name) for name in names if fnmatchcase(name, pattern))
