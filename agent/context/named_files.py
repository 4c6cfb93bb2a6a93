"""Files that a message is about: those it names, and identifiers by which they can be found. Pure; reads no files."""

from collections.abc import Collection, Iterator

from ebbtide.tools.lazy import regex

_WORD = regex(r"[^\s\"'`<>()\[\]{},;]+")
_ENDS = ".:!?*_"
"""Punctuation after a word that belongs to the sentence around it."""
_FILE = regex(r"[\w./-]*\w\.[A-Za-z]\w{0,9}")
_NAME = regex(r"\b(?=\w*[a-z])(?:[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|(?:[A-Z][a-z0-9]+){2,})\b|\b[A-Z][A-Z0-9_]{3,}\b")
"""Identifiers as only programs have them: with underscores, in mixed case, in capitals."""
_QUOTED_NAME = regex(r"`([^`\n]{3,60})`|(?<!\w)'([^'\n]{3,60})'(?!\w)|\"([^\"\n]{3,60})\"")


def files_named(text: str, files: Collection[str]) -> tuple[str, ...]:
    """Return the files (paths relative to one folder) that a text names, in text order: by path, by the end of a path,
    or by a name that only one of them has."""
    return tuple(dict.fromkeys(_iter_named_files(text, files)))


def names_of_files(text: str) -> tuple[str, ...]:
    """Return the words that look like file names with an extension."""
    words = (match[0].rstrip(_ENDS).removeprefix("./") for match in _WORD.finditer(text))
    return tuple(dict.fromkeys(word for word in words if _FILE.fullmatch(word)))


def names_in(text: str) -> tuple[str, ...]:
    """Return the identifiers and the quoted names in a text."""
    quoted = [next(filter(None, found)) for found in _QUOTED_NAME.findall(text)]
    return tuple(dict.fromkeys([*_NAME.findall(text), *quoted]))


def _iter_named_files(text: str, files: Collection[str]) -> Iterator[str]:
    for match in _WORD.finditer(text):
        for word in (match[0], match[0].rstrip(_ENDS)):
            path = word.removeprefix("./").removesuffix("/")
            if path in files:
                yield path
                break
            ends = [each for each in files if each.endswith(f"/{path}")] if "." in path.strip(".") else []
            if len(ends) == 1:
                yield ends[0]
                break
