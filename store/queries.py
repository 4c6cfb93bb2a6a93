"""What is looked for, and how the full-text index is asked for it. Whatever a user writes is a word: nothing of it can
be an operator or a mistake in the index's language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

MatchMethod: TypeAlias = Literal["words", "parts", "some", "meaning", "newest"]
"""How something was found: it holds all words; all of them as parts of longer words; some of them; it is only near in
meaning; nothing was asked for but the newest."""

MAX_PIECES = 32
"""Words of a query that count."""
MAX_PIECE_CHARS = 200
"""Characters of a word of a query that count."""

MAX_TERM_CHARS = 40
"""Characters of a word that is found by its parts; longer ones with digits are keys and encoded bytes."""
MAX_NAME_CHARS = 200
"""Characters of one without digits, which is a name: its parts are words themselves."""

_WILD = set("*?[")
"""What makes a pattern of a path."""

_UNSPACED_SCRIPTS = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts that are written without blanks, or with endings where a word would end."""
_UNSPACED_RUN = re.compile(f"[{_UNSPACED_SCRIPTS}]+")
_WORD = re.compile(rf"(?<![^\W_])(?:[^\W_]{{4,{MAX_TERM_CHARS}}}|[^\W\d_]{{4,{MAX_NAME_CHARS}}})(?![^\W_])")
_NAME = re.compile(r"\w+(?:-\w+)*")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_-]+")
"""Where one word of a name ends and the next begins."""
_PHRASE = re.compile(r'"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class SearchQuery:
    words: str = ""
    """Separated by blanks; between quotation marks several stand in that order."""
    kinds: tuple[str, ...] = ()
    """`user`, `assistant`, `output` or `summary`; all when it is empty."""
    tool: str = ""
    path: str = ""
    """Part of a path, or a pattern for all of it."""
    since: float | None = None
    """Unix seconds."""
    until: float | None = None
    sessions: tuple[str, ...] = ()
    """In one of these; empty: in any."""
    project: str | None = None
    limit: int = 10
    larger_than: int = 0
    """Bytes that it must have more of."""


def pieces_of(words: str) -> tuple[str, ...]:
    """The words and phrases of a query, without those that hold nothing that is indexed."""
    text = re.sub(r"[\x00-\x1f\x7f]", " ", words).encode("utf-8", "replace").decode("utf-8")
    found = dict[str, None]()
    for phrase, word in _PHRASE.findall(text):
        piece = (phrase or word).strip('"')[:MAX_PIECE_CHARS]
        for part in re.split(f"([{_UNSPACED_SCRIPTS}]+)", piece):
            if any(character.isalnum() for character in part):
                found.setdefault(part.strip())
    return tuple(found)[:MAX_PIECES]


def expression(pieces: Sequence[str], which: Literal["all", "some"], wider: Sequence[Sequence[str]] = ()) -> str:
    """The query in the index's language. `wider`: for each piece, what also stands for it, in that language."""
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
    """A name of several words in the two ways in which texts may have it besides: with a blank where its words meet,
    and glued together. Two empty texts when it is none."""
    words = [word for word in _HUMP.split(piece) if word] if _NAME.fullmatch(piece) else []
    return (" ".join(words), "".join(words)) if len(words) > 1 else ("", "")


def prefix(piece: str) -> str:
    """The piece, with its last word only begun."""
    return quote_fts(piece) + "*"


def quote_fts(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def pairs_of(text: str) -> str:
    """Each two neighbouring characters of what is written without blanks, as words. The last of a run stands alone,
    too: then each begins a word, and a search for one finds it."""
    return " ".join(word for run in _UNSPACED_RUN.findall(text) for word in (*_pairs(run), run[-1]))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def words_of(text: str) -> set[str]:
    """The words of a text that others may be parts of."""
    return {word for word in _WORD.findall(text.lower()) if not _UNSPACED_RUN.search(word)}


def clean(text: str) -> str:
    """The text as a database takes it."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def words_of_path(path: str) -> tuple[str, ...]:
    """What a path with that part in it surely holds, in the index's language: its words but the first, of which it may
    be the end."""
    words = [] if set(path) & _WILD else re.findall(r"[^\W_]+", path)
    return (prefix(" ".join(words[1:])),) if len(words) > 1 else ()


def filters(wanted: SearchQuery) -> tuple[str, list[object]]:
    """What only the documents themselves can tell."""
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
    """What all of a path must match that has this part or matches this pattern."""
    return clean(path if set(path) & _WILD else f"*{path}*")
