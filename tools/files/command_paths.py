"""The sensitive paths that a command names, absolute and resolved: files with secrets, files that other programs obey,
and targets of links."""

import os
import posixpath
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.line_limits import without_bodies, without_texts_behind_arrows
from ebbtide.tools.commands.named_files import NamedFile, all_named_files, gives_names_on
from ebbtide.tools.files.autorun import AUTORUN_NAMES, AUTORUN_PREFIXES, AUTORUN_SUFFIXES, runs_later
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.files import SECRET_ENDS, SECRET_NAMES, SECRET_STARTS, SIGNS_OF_SECRETS, holds_secrets

_NAMES, _ENDS, _STARTS = AUTORUN_NAMES | SECRET_NAMES, AUTORUN_SUFFIXES + SECRET_ENDS, AUTORUN_PREFIXES + SECRET_STARTS
_MAX_NAMES = 2_000
"""Maximum number of names in a folder matched against a pattern."""
_LONG, _MAX_IN_LONG = 2_000, 20
"""In a line longer than this, no more names are looked up unless one may be a secret file or the line changes files.
Such a line is never proved read-only, and link targets matter only for lines that are."""
_MAX_LOOKUPS = 30
"""Maximum number of sensitive names looked up per line, at about ten microseconds each."""
_SIGNS_OF_GIVING = ("xargs", "parallel", "find", "for")
"""One of these is in every line in which a program passes names to another."""


@dataclass(frozen=True, slots=True)
class CommandPaths:
    """Absolute resolved paths."""

    secret: tuple[str, ...] = ()
    """Files whose names suggest passwords or keys, and that the command may show."""
    obeyed: tuple[str, ...] = ()
    """Files to be changed that other programs obey."""
    led: tuple[str, ...] = ()
    """Targets of links that the command reads."""
    is_cut: bool = False
    """Whether the line is too long to analyse, or names more files than are looked up."""


def command_paths(line: str, root: str) -> CommandPaths:
    """Return the sensitive paths of a command line. `root`: the working folder, absolute and resolved."""
    secret, obeyed, led = dict[str, None](), dict[str, None](), dict[str, None]()
    is_broken = parse_command_line(line).is_broken
    if is_broken and len(without_bodies(line)) > _LONG:
        return CommandPaths(is_cut=True)
    files, is_whole = all_named_files(line)
    gives_on = any(sign in line for sign in _SIGNS_OF_GIVING) and gives_names_on(line)
    if not is_whole or gives_on:
        known = {file.path for file in files}
        more = (
            file for file in _sensitive_mentions(line) if file.path not in known and not (is_whole and file.changes)
        )
        files = (*files, *more)
    if len(line) > _LONG and len(files) > _MAX_IN_LONG and not _may_matter(line, files):
        files = files[:_MAX_IN_LONG]
    if len(files) > _MAX_LOOKUPS:
        secrets = _may_be_secret(files)
        others = (file for file in files if file.changes or file.globs or file.is_sure)
        files = (*secrets, *(file for file in others if file not in secrets))
    links = dict[str, bool]()
    is_cut = len(files) > _MAX_LOOKUPS
    for file in files[:_MAX_LOOKUPS]:
        if is_broken and (secret or obeyed):
            break  # no rule covers such a line, so one path is enough to ask
        if file.folder and not os.path.isdir(posixpath.join(root, os.path.expanduser(file.folder))):
            continue
        for written in _expand_globs(file, root):
            whole = posixpath.join(root, os.path.expanduser(written))
            meant = posixpath.normpath(whole)
            path = _real(meant, links) if ".." not in whole.split("/") else _behind_links(whole)
            both = (path,) if path == meant else (path, meant)
            if file.changes:
                obeyed.update(dict.fromkeys([one for one in both if runs_later(one, root)][:1]))
            elif found := [one for one in both if holds_secrets(one)]:
                secret[found[0]] = None
            elif file.is_sure and path != meant:
                led[path] = None
    return CommandPaths(tuple(secret), tuple(obeyed), tuple(led), is_cut)


def _sensitive_mentions(line: str) -> Iterator[NamedFile]:
    """Yield the words of an incompletely parsed line that look like sensitive files, so that filler cannot hide
    them."""
    text = _without_quoting(without_texts_behind_arrows(line))
    small = text.casefold()
    ends, starts = (tuple(sign for sign in signs if sign in small) for signs in (_ENDS, _STARTS))
    names = set(_apart(small).replace("/", " ").split())
    found = names & _NAMES
    found |= {name for name in names if name.endswith(ends) or name.startswith(starts)} if ends or starts else set()
    signs = (*(found & _NAMES), *ends, *starts)
    likely = (word for word in dict.fromkeys(_apart(text).split()) if any(sign in word.casefold() for sign in signs))
    mentioned = (word for word in likely if not found.isdisjoint(word.casefold().split("/")))
    for word in islice(mentioned, _MAX_LOOKUPS + 1) if found else ():
        yield NamedFile(word, changes=not holds_secrets(word))


def _without_quoting(text: str) -> str:
    """Return the line without quoting characters, which could split up a name."""
    for sign in "\\'\"":
        text = text.replace(sign, "")
    return text


def _apart(text: str) -> str:
    for sign in ";&|()`<>{}$=,":
        text = text.replace(sign, " ")
    return text


def _may_matter(line: str, files: Sequence[NamedFile]) -> bool:
    small = line.casefold()
    return any(file.changes or file.globs for file in files) or any(sign in small for sign in SIGNS_OF_SECRETS)


def _may_be_secret(files: Sequence[NamedFile]) -> Collection[NamedFile]:
    small = "\n".join(file.path for file in files).casefold()
    signs = [sign for sign in SIGNS_OF_SECRETS if sign in small]  # most lines contain none
    likely = (file for file in files if any(sign in file.path.casefold() for sign in signs))
    return set(likely if signs else ())


def _behind_links(path: str) -> str:
    """Resolve a path in which `..` may follow a link: it is relative to the link's target."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return posixpath.normpath(path)


def _real(path: str, links: dict[str, bool]) -> str:
    """`links` caches which folders are links."""
    folder = path.rpartition("/")[0]
    try:
        if folder not in links:
            links[folder] = os.path.islink(folder)
        return os.path.realpath(path) if links[folder] or os.path.lexists(path) else path
    except (OSError, ValueError):  # an invalid name, or a link replaced while it is resolved
        return path


def _autorun_name(part: str) -> str:
    """Return a sensitive name that a pattern may match, or the pattern itself if there is none. Patterns match a
    leading dot only if they begin with one."""
    if part[:1] != "." or not any(sign in part for sign in "*?["):
        return part
    return next((name for name in sorted(_NAMES) if fnmatchcase(name, part)), part)


def _expand_globs(file: NamedFile, root: str) -> Iterator[str]:
    """Yield the name as it is, and the names that a pattern matches."""
    yield file.path
    folder, pattern = posixpath.split(file.path)
    if file.globs and any(sign in folder for sign in "*?["):
        yield "/".join(map(_autorun_name, file.path.split("/")))
    if file.globs and pattern and not any(sign in folder for sign in "*?["):
        try:
            names = os.listdir(posixpath.join(root, folder))[:_MAX_NAMES]
        except (OSError, ValueError):
            return
        yield from (posixpath.join(folder, name) for name in names if fnmatchcase(name, pattern))
