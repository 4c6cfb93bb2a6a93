"""Search queries and their translation to FTS5 syntax. Everything the user writes is treated as words, so it cannot
contain operators or syntax errors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

MatchMethod: TypeAlias = Literal["words", "parts", "some", "meaning", "newest"]
"""How a match was found: it contains all words; all of them as parts of longer words; some of them; it is similar in
meaning; or the query only asked for the newest."""

MAX_PIECES = 32
"""Maximum number of words in a query."""
MAX_PIECE_CHARS = 200
"""Maximum length of a word in a query, in characters."""

MAX_TERM_CHARS = 40
"""Maximum length of a word that can be found by its parts, in characters; longer words with digits are keys or encoded
bytes."""
MAX_NAME_CHARS = 200
"""The same limit for words without digits, which are names."""

_WILD = set("*?[")
"""Characters that make a path a pattern."""

_UNSPACED_SCRIPTS = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts written without spaces, or with suffixes attached to words."""
_UNSPACED_RUN = re.compile(f"[{_UNSPACED_SCRIPTS}]+")
_WORD = re.compile(rf"(?<![^\W_])(?:[^\W_]{{4,{MAX_TERM_CHARS}}}|[^\W\d_]{{4,{MAX_NAME_CHARS}}})(?![^\W_])")
_NAME = re.compile(r"\w+(?:-\w+)*")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_-]+")
"""Boundaries between the words of a name."""
_PHRASE = re.compile(r'"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class SearchQuery:
    words: str = ""
    """Separated by spaces; quotation marks enclose a phrase."""
    kinds: tuple[str, ...] = ()
    """`user`, `assistant`, `output` or `summary`; empty for all."""
    tool: str = ""
    path: str = ""
    """Part of a path, or a pattern for the whole path."""
    since: float | None = None
    """Unix seconds."""
    until: float | None = None
    sessions: tuple[str, ...] = ()
    """Sessions to search; empty for all."""
    project: str | None = None
    limit: int = 10
    larger_than: int = 0
    """Minimum size in bytes, exclusive."""


def pieces_of(words: str) -> tuple[str, ...]:
    """Return the words and phrases of a query that contain indexed characters."""
    text = re.sub(r"[\x00-\x1f\x7f]", " ", words).encode("utf-8", "replace").decode("utf-8")
    found = dict[str, None]()
    for phrase, word in _PHRASE.findall(text):
        piece = (phrase or word).strip('"')[:MAX_PIECE_CHARS]
        for part in re.split(f"([{_UNSPACED_SCRIPTS}]+)", piece):
            if any(character.isalnum() for character in part):
                found.setdefault(part.strip())
    return tuple(found)[:MAX_PIECES]


def expression(pieces: Sequence[str], which: Literal["all", "some"], wider: Sequence[Sequence[str]] = ()) -> str:
    """Return the query as an FTS5 expression. `wider` are alternative FTS5 terms for each piece."""
    parts = []
    for index, piece in enumerate(pieces):
        forms = [_form(piece), *(wider[index] if wider else ())]
        parts.append(f"({' OR '.join(forms)})")
    return (" AND " if which == "all" else " OR ").join(parts)


def _form(piece: str) -> str:
    if not _UNSPACED_RUN.fullmatch(piece):
        return quote_fts(piece)
    return prefix(piece) if len(piece) == 1 else quote_fts(" ".join(_pairs(piece)))


def spellings(piece: str) -> tuple[str, str]:
    """Return two alternative spellings of a compound name: with spaces between its words, and joined. Both are empty
    for any other text."""
    words = [word for word in _HUMP.split(piece) if word] if _NAME.fullmatch(piece) else []
    return (" ".join(words), "".join(words)) if len(words) > 1 else ("", "")


def prefix(piece: str) -> str:
    """A prefix query for the piece's last word."""
    return quote_fts(piece) + "*"


def quote_fts(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def pairs_of(text: str) -> str:
    """Return all pairs of neighbouring characters in text without spaces, as words. The last character of a run is
    added, so that every character starts a word and a search for one finds it."""
    return " ".join(word for run in _UNSPACED_RUN.findall(text) for word in (*_pairs(run), run[-1]))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def words_of(text: str) -> set[str]:
    """Return the words of a text that are indexed by their parts."""
    return {word for word in _WORD.findall(text.lower()) if not _UNSPACED_RUN.search(word)}


def clean(text: str) -> str:
    """Remove characters that the database cannot store."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def words_of_path(path: str) -> tuple[str, ...]:
    """Return the FTS5 terms that a path containing this part must match: its words except the first, which may be the
    end of a longer word."""
    words = [] if set(path) & _WILD else re.findall(r"[^\W_]+", path)
    return (prefix(" ".join(words[1:])),) if len(words) > 1 else ()


def filters(wanted: SearchQuery) -> tuple[str, list[object]]:
    """Return the SQL conditions that are not covered by the full-text index."""
    clause, values = "", list[object]()
    if wanted.since is not None:
        clause += " and d.created >= ?"
        values.append(wanted.since)
    if wanted.until is not None:
        clause += " and d.created < ?"
        values.append(wanted.until)
    if wanted.larger_than:
        clause += " and d.size > ?"
        values.append(wanted.larger_than)
    if wanted.path:
        clause += " and d.path glob ?"
        values.append(path_pattern(wanted.path))
    return clause, values


def path_pattern(path: str) -> str:
    """Return a glob pattern for paths that contain this part or match this pattern."""
    return clean(path if set(path) & _WILD else f"*{path}*")
