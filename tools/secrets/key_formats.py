"""Secrets in a text: values that are known, and keys that are told by their form with hardly a doubt. Pure."""

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from urllib.parse import quote, quote_plus, unquote

from tools.lazy import dataclass, regex

SHORTEST = 8
"""Characters of a value that is taken for a secret wherever it stands. A shorter one may be part of any word."""

SECRET_NAME = regex(
    r"(?:^|[^a-z0-9])(?:KEYS?|PASS|PASSWD|PWD|PAT|CREDS?|AUTH|COOKIES?|DSN|BEARER|JWT|SAS)(?:[^a-z0-9]|$)"
    r"|TOKEN|PASSWORD|PASSPHRASE|SECRET|CREDENTIAL|(?:API|ACCESS|PRIVATE)[^a-z0-9]?KEY|WEBHOOK|CONNECTION_?STRING|MNEMONIC",
    re.IGNORECASE,
)
"""Variables that hold secrets, by what they are called."""

_FEWEST_SIGNS = 8
"""Different characters of a key; what has fewer is an example (`AKIAXXXXXXXXXXXXXXXX`)."""

_FORMATS = (
    (
        "private-key",
        "PRIVATE KEY",
        regex(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[^-]{40,20000}"
            r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        ),
    ),
    ("aws-key", "AKIA", regex(r"\bAKIA[A-Z2-7]{16}\b")),
    ("aws-key", "ASIA", regex(r"\bASIA[A-Z2-7]{16}\b")),
    ("github-token", "gh", regex(r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b")),
    ("github-token", "github_pat_", regex(r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b")),
    ("gitlab-token", "glpat-", regex(r"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("anthropic-key", "sk-ant-", regex(r"\bsk-ant-[a-z]+[0-9]{2}-[A-Za-z0-9_-]{24,}")),
    ("openai-key", "sk-", regex(r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,}")),
    ("openai-key", "sk-", regex(r"\bsk-(?=[a-z]*[A-Z0-9])(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{32,}\b")),
    ("google-key", "AIza", regex(r"\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])")),
    ("slack-token", "xox", regex(r"\bxox[abeposr]-[0-9]{8,}-[A-Za-z0-9-]{20,}")),
    ("stripe-key", "k_live_", regex(r"\b[sr]k_live_[A-Za-z0-9]{20,}")),
    ("npm-token", "npm_", regex(r"\bnpm_[A-Za-z0-9]{36}\b")),
    ("pypi-token", "pypi-AgE", regex(r"\bpypi-AgE[A-Za-z0-9_-]{50,}")),
    ("sendgrid-key", "SG.", regex(r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}")),
    ("huggingface-token", "hf_", regex(r"\bhf_[A-Za-z]{34}\b")),
    ("jwt", "eyJ", regex(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}")),
)
"""A name, what a text must hold to be looked at, and the form."""

_UNFINISHED = regex(r"-----BEGIN [A-Z0-9 ]*-{0,5}[^-]*-{0,5}[A-Z0-9 ]*-{0,4}\Z")
_LAST_WORD = regex(r"[A-Za-z0-9_.-]+\Z")
_BEGINNINGS = (
    *("-----BEGIN ", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "AIza"),
    *("xox", "sk_live_", "rk_live_", "npm_", "pypi-AgE", "SG.", "hf_", "eyJ"),
)

_PASSWORD = regex(r"://(?:[^/\s:@]*:([^/\s@]+)|([^/\s:@]{16,}))@")
"""What stands before the host of an address: a password, or a token alone."""
_SCHEME = regex(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_PART = regex(r"[A-Za-z0-9+/_-]{16,}={0,2}")
"""What may be a secret by itself in a value of several: a list, a cookie, JSON, settings of a connection."""

_BREAKS = regex(r"[\r\n\0\b]+")
_LONG_ENOUGH = 16
"""Characters of a value that is found in pieces, too."""

_DUMP = regex(r"^(?:[0-9A-Fa-f]{4,16}:?)?[ \t]+((?:[0-9A-Fa-f]{2} {0,2}){1,16})[^\n]*", re.MULTILINE)
"""A line of bytes, as `xxd`, `hexdump -C` and `od -tx1` print them, with what they are as signs behind it."""

_LONGEST_KEY = 20_000
_KEY_EDGE = regex(r"-----(BEGIN|END) (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = regex(r"[A-Za-z0-9+/]{40,}={0,2}")
_KEY_HEADER = regex(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash): |^\W*\d*\W*$")

_PIECE = regex(r"[A-Za-z0-9+/=_-]+")
_SHORTEST_PIECE = 40
"""Signs of a line that goes on in the next one."""


@dataclass(frozen=True, slots=True)
class FoundSecret:
    start: int
    end: int
    name: str


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of an environment that are secrets, with the names of their variables. A path or a plain word is none:
    it would be found in any text."""
    known: dict[str, str] = {}
    for name, value in environment.items():
        passwords = [found[1] or found[2] for found in _PASSWORD.finditer(value)]
        written = passwords or (_parts_of(value) if SECRET_NAME.search(name) else ())
        for one in (*written, *map(unquote, passwords)):
            if len(one) >= SHORTEST and not _is_path(one) and not (one.isalpha() and one.islower()):
                known.setdefault(one, name)
    return known


def _parts_of(value: str) -> Iterator[str]:
    """A value, and what in it may be a secret by itself."""
    whole = value.strip().strip("\"'")
    yield value
    yield whole
    if (scheme := _SCHEME.match(whole)) is not None:
        yield whole[scheme.end() :]
    if whole.count(":") == 1 and not re.search(r"[\s/]", whole):  # as programs take a name with a password
        yield whole.partition(":")[2]
    yield from (part for part in _PART.findall(whole) if re.search(r"\d", part) and re.search(r"[A-Za-z]", part))


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~")) and not any(len(part) > 12 and _is_mixed(part) for part in value.split("/"))


def _is_mixed(text: str) -> bool:
    """Whether it looks made by chance, as keys are."""
    return all(re.search(signs, text) for signs in ("[a-z]", "[A-Z]", r"\d"))


def forms_of(value: str) -> Iterator[str]:
    """How a secret may stand in a text: as it is, escaped as programs, JSON, HTML and shells do it, quoted for an
    address, in hexadecimal digits, and in base64 wherever it begins in what is encoded."""
    data = _bytes_of(value)
    yield value
    yield from sorted(set(_escaped_forms(value, data)) - {value})
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):
        # What stands around decides the digits at both ends: those in between are the secret's alone.
        encoded = b64encode(b"\0" * shift + data).decode().rstrip("=")
        whole = encoded[(0, 2, 3)[shift] : len(encoded) - (1 if (shift + len(data)) % 3 else 0)]
        if len(whole) >= SHORTEST:
            yield whole
            if (url_safe := whole.translate(_URL_SAFE)) != whole:
                yield url_safe


def _bytes_of(value: str) -> bytes:
    """As they are in an environment, where values need not be texts."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def _escaped_forms(value: str, data: bytes) -> Iterator[str]:
    """The value itself among them, where nothing in it has to be escaped."""
    yield from (repr(value)[1:-1], quote(data, safe=""), quote(data), quote_plus(data))
    yield from (escape(value), escape(value, quote=False), value.replace("'", "'\\''"), value.replace("'", "'\"'\"'"))
    for written in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield from (written, written.replace("/", "\\/"))


_URL_SAFE = str.maketrans("+/", "-_")


def may_go_on(text: str, known: Iterable[str], most: int = 20_000) -> int:
    """Where the last characters begin that may be a part of a secret whose rest is still to come; the length of the
    text where there are none."""
    found = len(text)
    if (match := _UNFINISHED.search(text, max(len(text) - most, 0))) is not None:
        found = match.start()
    if (match := _LAST_WORD.search(text, max(len(text) - most, 0))) is not None:
        word = match[0]
        if any(one in word or _ends_with_beginning(word, one) for one in _BEGINNINGS):
            found = min(found, match.start())
    for value in known:
        for size in range(min(len(value) - 1, len(text)), 0, -1):
            if text.endswith(value[:size]):
                found = min(found, len(text) - size)
                break
    return found


def _ends_with_beginning(text: str, value: str) -> bool:
    return any(text.endswith(value[:size]) for size in range(min(len(value), len(text)), 0, -1))


def secrets_in(text: str, known: Mapping[str, str]) -> list[FoundSecret]:
    """The places of all secrets in a text, in order and apart from each other. `known`: forms of values, by name."""
    found = [
        FoundSecret(match.start(), match.end(), name)
        for value, name in known.items()
        if value in text
        for match in re.finditer(re.escape(value), text)
    ]
    if known:
        found += (*_wrapped(text, known), *_broken(text, known), *_cut_off(text, known), *_dumped(text, known))
    if "PRIVATE KEY" in text:
        found += _parts_of_keys(text)
    for name, hint, form in _FORMATS:
        if hint in text:
            found += [
                FoundSecret(match.start(), match.end(), name)
                for match in form.finditer(text)
                if len(set(match[0])) >= _FEWEST_SIGNS and "EXAMPLE" not in match[0]
            ]
    found.sort(key=lambda one: (one.start, -one.end))
    apart: list[FoundSecret] = []
    for one in found:
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return apart


def _broken(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """The pieces of values that lines of any length break apart."""
    whole = _BREAKS.sub("", text)
    if len(whole) == len(text):
        return
    broken = [value for value in known if len(value) >= _LONG_ENOUGH and whole.count(value) > text.count(value)]
    places: list[int] = []
    """Where in the whole a break was, and how many signs all breaks up to there had."""
    before = [0]
    for match in _BREAKS.finditer(text) if broken else ():
        places.append(match.start() - before[-1])
        before.append(before[-1] + len(match[0]))
    for value in broken:
        for match in re.finditer(re.escape(value), whole):
            at, index = match.start(), bisect_right(places, match.start())
            while index < len(places) and places[index] < match.end():
                yield FoundSecret(at + before[index], places[index] + before[index], known[value])
                at, index = places[index], index + 1
            yield FoundSecret(at + before[index], match.end() + before[index], known[value])


def _cut_off(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """What is there of values that are cut off at the end of a line, or begin before it."""
    for value, name in known.items():
        size, fewest = len(value), max(SHORTEST, len(value) // 3)
        if size < _LONG_ENOUGH or not re.search(r"\d", value):
            continue
        for start in _places_of(value[:fewest], text):
            if not text.startswith(value, start):
                end = start + _alike(text[start : start + size], value)
                if end == len(text) or text[end] in "\r\n":
                    yield FoundSecret(start, end, name)
        for end in (start + fewest for start in _places_of(value[-fewest:], text)):
            if not text.endswith(value, 0, end):
                start = end - _alike(text[max(end - size, 0) : end][::-1], value[::-1])
                if start == 0 or text[start - 1] in "\r\n":
                    yield FoundSecret(start, end, name)


def _dumped(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """The lines of a dump in which bytes of a value stand."""
    lines = [(line.start(1), line.end(), re.sub(r"\s", "", line[1]).lower()) for line in _DUMP.finditer(text)]
    whole = "".join(digits for *_, digits in lines)
    for value, name in known.items():
        for at in _places_of(value, whole) if value in whole else ():
            begin = 0
            for start, end, digits in lines:
                if begin < at + len(value) and at < begin + len(digits):
                    yield FoundSecret(start, end, name)
                begin += len(digits)


def _places_of(piece: str, text: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + len(piece))


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _parts_of_keys(text: str) -> Iterator[FoundSecret]:
    """Private keys that are cut off, or of which each line begins with something, as in a diff."""
    for edge in _KEY_EDGE.finditer(text):
        if edge[1] == "END":
            if (start := _key_above(text, edge.start())) < edge.start():
                yield FoundSecret(start, edge.end(), "private-key")
        elif (end := _key_below(text, edge.end())) > edge.end():
            yield FoundSecret(edge.start(), end, "private-key")


def _key_below(text: str, start: int) -> int:
    """Where a key ends that begins there."""
    last, at, others = start, start, 0
    while at < min(len(text), start + _LONGEST_KEY):
        until = text.find("\n", at) + 1 or len(text)
        line = text[at:until]
        if (edge := _KEY_EDGE.search(line)) is not None:
            return at + edge.end() if last > start else last
        if (end := _key_part(line)[1]) > 0:
            last, others = at + end, 0
        elif at > start and not _KEY_HEADER.search(line):
            others += 1
            if others > (last > start):  # the last line of a key is shorter
                break
        at = until
    return last


def _key_above(text: str, end: int) -> int:
    """Where the lines of a key begin that ends there."""
    first = until = end
    for number in range(_LONGEST_KEY // _SHORTEST_PIECE):
        at = text.rfind("\n", 0, max(until - 1, 0)) + 1
        begin, behind = _key_part(text[at:until])
        if behind > 0:
            first = at + begin
        elif number > 1:  # the edge itself, and the last line, which is shorter
            break
        until = at
        if at == 0:
            break
    return first


def _key_part(line: str) -> tuple[int, int]:
    """Where in a line that of a key is; zeros where there is none."""
    runs = [run for run in _KEY_LINE.finditer(line) if _is_mixed(run[0])]
    return (runs[0].start(), runs[-1].end()) if runs else (0, 0)


def _wrapped(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """The pieces of values that lines break apart, as `base64` and `xxd -p` print them, numbered or not: what is last
    in a line goes on in the next one."""
    pieces: list[tuple[int, str]] = []
    at = 0
    for line in text.splitlines(keepends=True) if text.count("\n") else ():
        words = line.rstrip()
        piece = words[max(words.rfind(" "), words.rfind("\t")) + 1 :]
        is_piece = _PIECE.fullmatch(piece) is not None
        if is_piece and (pieces or len(piece) >= _SHORTEST_PIECE):
            pieces.append((at + len(words) - len(piece), piece))
        if pieces and not (is_piece and len(piece) >= _SHORTEST_PIECE):
            yield from _joined(pieces, known)
            pieces = []
        at += len(line)
    yield from _joined(pieces, known)


def _joined(pieces: Sequence[tuple[int, str]], known: Mapping[str, str]) -> Iterator[FoundSecret]:
    whole = "".join(piece for _, piece in pieces) if len(pieces) > 1 else ""
    for value, name in known.items():
        if (start := whole.find(value)) < 0:
            continue
        end = start + len(value)
        for place, piece in pieces:
            first, last = max(start, 0), min(end, len(piece))
            if first < last:
                yield FoundSecret(place + first, place + last, name)
            start, end = start - len(piece), end - len(piece)
