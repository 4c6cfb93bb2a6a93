"""Secrets in a text: values that are known, and keys that are told by their form with hardly a doubt. Pure."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from urllib.parse import quote, quote_plus

from tools.lazy import dataclass, regex

SHORTEST = 8
"""Characters of a value that is taken for a secret wherever it stands. A shorter one may be part of any word."""

SECRET_NAME = regex(
    r"(?:^|_)(?:API_?KEYS?|KEYS?|PASS|PASSWD|PASSPHRASE|PWD|PAT|CREDS?|AUTH|COOKIES?|DSN|BEARER|JWT)(?:_|$)"
    r"|TOKEN|PASSWORD|SECRET|CREDENTIAL",
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

_PASSWORD = regex(r"://[^/\s:@]*:([^/\s@]+)@")


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
        if (password := _PASSWORD.search(value)) is not None:
            value = password[1]
        elif not SECRET_NAME.search(name):
            continue
        if len(value) >= SHORTEST and not value.startswith(("/", "~")) and not (value.isalpha() and value.islower()):
            known.setdefault(value, name)
    return known


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
        found += _wrapped(text, known)
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
