"""Search queries and their translation to FTS5 syntax. All text from the user is treated as plain words, so it cannot
contain operators or cause syntax errors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

MatchMethod: TypeAlias = Literal["words", "parts", "some", "meaning", "newest"]
"""How a match was found. `words`: it contains all words. `parts`: it contains them as parts of longer words. `some`: it
contains some of them. `meaning`: its meaning is similar. `newest`: the query had no words, so the newest documents were
returned."""

MAX_QUERY_PIECES = 32
"""Maximum number of words in a query."""
MAX_PIECE_CHARS = 200
"""Maximum length of a word in a query, in characters."""

MAX_TERM_CHARS = 40
"""Maximum length, in characters, of words that can be found by their parts. Longer words with digits are assumed to be
keys or encoded bytes."""
MAX_NAME_CHARS = 200
"""Maximum length, in characters, of words without digits that can be found by their parts. Such words are assumed to be
names."""

_GLOB_CHARACTERS = set("*?[")
"""Characters that make a path a glob pattern."""

_UNSPACED_SCRIPTS = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts that are written without spaces or attach suffixes to words."""
_UNSPACED_RUN = re.compile(f"[{_UNSPACED_SCRIPTS}]+")
_WORD = re.compile(rf"(?<![^\W_])(?:[^\W_]{{4,{MAX_TERM_CHARS}}}|[^\W\d_]{{4,{MAX_NAME_CHARS}}})(?![^\W_])")
_NAME = re.compile(r"\w+(?:-\w+)*")
_COMPOUND_BOUNDARY = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_-]+")
"""Boundaries between the words of a compound name, such as `maxRetries`."""
_PHRASE = re.compile(r'"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class SearchQuery:
    words: str = ""
    """The words, separated by spaces. Quotation marks enclose a phrase."""
    kinds: tuple[str, ...] = ()
    """`user`, `assistant`, `output` or `summary`; empty for all."""
    tool: str = ""
    path: str = ""
    """Part of a path, or a glob pattern for the whole path."""
    since: float | None = None
    """Only documents created at or after this time, in Unix seconds."""
    until: float | None = None
    sessions: tuple[str, ...] = ()
    """Sessions to search; empty for all."""
    project: str | None = None
    limit: int = 10
    larger_than: int = 0
    """Only documents larger than this, in bytes."""


def query_pieces(words: str) -> tuple[str, ...]:
    """Split a query into its words and phrases, dropping those without indexed characters."""
    text = re.sub(r"[\x00-\x1f\x7f]", " ", words).encode("utf-8", "replace").decode("utf-8")
    pieces = dict[str, None]()
    for phrase, word in _PHRASE.findall(text):
        piece = (phrase or word).strip('"')[:MAX_PIECE_CHARS]
        for fragment in re.split(f"([{_UNSPACED_SCRIPTS}]+)", piece):
            if any(character.isalnum() for character in fragment):
                pieces.setdefault(fragment.strip())
    return tuple(pieces)[:MAX_QUERY_PIECES]


def fts_expression(
    pieces: Sequence[str], match_mode: Literal["all", "some"], alternatives: Sequence[Sequence[str]] = ()
) -> str:
    """Build the FTS5 expression for a query. `alternatives`: for each piece, FTS5 terms that may match instead."""
    groups = []
    for index, piece in enumerate(pieces):
        terms = [_piece_term(piece), *(alternatives[index] if alternatives else ())]
        groups.append(f"({' OR '.join(terms)})")
    return (" AND " if match_mode == "all" else " OR ").join(groups)


def _piece_term(piece: str) -> str:
    if not _UNSPACED_RUN.fullmatch(piece):
        return quote_fts(piece)
    return prefix_term(piece) if len(piece) == 1 else quote_fts(" ".join(_pairs(piece)))


def spellings(piece: str) -> tuple[str, str]:
    """Spell a compound name in two other ways: with spaces between its words, and with the words joined. Both are empty
    for other text."""
    words = [word for word in _COMPOUND_BOUNDARY.split(piece) if word] if _NAME.fullmatch(piece) else []
    return (" ".join(words), "".join(words)) if len(words) > 1 else ("", "")


def prefix_term(piece: str) -> str:
    """Build an FTS5 term that matches the piece as a phrase whose last word may be longer."""
    return quote_fts(piece) + "*"


def quote_fts(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def character_pairs(text: str) -> str:
    """Get all pairs of neighbouring characters in text without spaces, as words. The last character of each run is a
    word too, so that every character starts a word and can be found on its own."""
    if text.isascii():  # most texts are, and large ones take a while to search
        return ""
    return " ".join(word for run in _UNSPACED_RUN.findall(text) for word in (*_pairs(run), run[-1]))


def _pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run) - 1)]


def indexed_words(text: str) -> set[str]:
    """Get the words in text that can be found by their parts."""
    words = set(_WORD.findall(text.lower()))
    return words if text.isascii() else {word for word in words if not _UNSPACED_RUN.search(word)}


def storable_text(text: str) -> str:
    """Remove characters that the database cannot store."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def path_terms(path: str) -> tuple[str, ...]:
    """Build FTS5 terms that match every path containing this part. The first word is left out, because a search term
    must begin where a word begins: `in.py` also occurs in `main.py`."""
    words = [] if set(path) & _GLOB_CHARACTERS else re.findall(r"[^\W_]+", path)
    return (prefix_term(" ".join(words[1:])),) if len(words) > 1 else ()


def sql_filters(query: SearchQuery) -> tuple[str, list[object]]:
    """Build SQL conditions for the filters that the full-text index cannot apply, with the values of their
    parameters."""
    clause, values = "", list[object]()
    if query.since is not None:
        clause += " and d.created >= ?"
        values.append(query.since)
    if query.until is not None:
        clause += " and d.created < ?"
        values.append(query.until)
    if query.larger_than:  # not a parameter, so that SQLite can use an index of large documents only
        clause += f" and d.size > {query.larger_than:d}"
    if query.path:
        clause += " and d.path glob ?"
        values.append(path_pattern(query.path))
    return clause, values


def path_pattern(path: str) -> str:
    """Build a glob pattern for paths that contain `path`. If `path` is itself a pattern, whole paths must match it."""
    return storable_text(path if set(path) & _GLOB_CHARACTERS else f"*{path}*")
