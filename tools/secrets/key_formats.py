"""Detects secrets in a text: known values, and keys with an unmistakable format. Pure."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from urllib.parse import quote, quote_plus, unquote

from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.secret_pieces import MIN_SECRET_CHARS, FoundSecret, is_mixed, parts_of_keys, pieces_in

SECRET_NAME = regex(
    r"(?:^|[^a-z0-9])(?:KEYS?|PASS|PASSWD|PWD|PAT|CREDS?|AUTH|COOKIES?|DSN|BEARER|JWT|SAS)(?:[^a-z0-9]|$)"
    r"|TOKEN|PASSWORD|PASSPHRASE|SECRET|CREDENTIAL|(?:API|ACCESS|PRIVATE)[^a-z0-9]?KEY|WEBHOOK|CONNECTION_?STRING|MNEMONIC",
    re.IGNORECASE,
)
"""Names of variables that contain secrets."""

_MIN_DISTINCT_CHARS = 8
"""Minimum number of distinct characters in a key. With fewer, it is an example (`AKIAXXXXXXXXXXXXXXXX`)."""

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
"""A name, a substring that the text must contain, and the format."""

_UNFINISHED_KEY_HEADER = regex(r"-----BEGIN [A-Z0-9 ]*-{0,5}[^-]*-{0,5}[A-Z0-9 ]*-{0,4}\Z")
_LAST_WORD = regex(r"[A-Za-z0-9_.-]+\Z")
_BEGINNINGS = (
    *("-----BEGIN ", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "AIza"),
    *("xox", "sk_live_", "rk_live_", "npm_", "pypi-AgE", "SG.", "hf_", "eyJ"),
)

_PASSWORD = regex(r"://(?:[^/\s:@]*:([^/\s@]+)|([^/\s:@]{16,}))@")
"""Credentials before the host of an address: a password, or just a token."""
_SCHEME = regex(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_PART = regex(r"[A-Za-z0-9+/_-]{16,}={0,2}")
"""A possible secret within a compound value: a list, a cookie, JSON, a connection string."""


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of an environment that are secrets, with the names of their variables. Paths and plain words
    are excluded, since they would be found in any text."""
    known: dict[str, str] = {}
    for name, value in environment.items():
        passwords = [found[1] or found[2] for found in _PASSWORD.finditer(value)]
        written = passwords or (_parts_of(value) if SECRET_NAME.search(name) else ())
        for one in (*written, *map(unquote, passwords)):
            if len(one) >= MIN_SECRET_CHARS and not _is_path(one) and not (one.isalpha() and one.islower()):
                known.setdefault(one, name)
    return known


def _parts_of(value: str) -> Iterator[str]:
    """Yield a value and the possible secrets within it."""
    whole = value.strip().strip("\"'")
    yield value
    yield whole
    if (scheme := _SCHEME.match(whole)) is not None:
        yield whole[scheme.end() :]
    if whole.count(":") == 1 and not re.search(r"[\s/]", whole):  # a user name with a password
        yield whole.partition(":")[2]
    yield from (part for part in _PART.findall(whole) if re.search(r"\d", part) and re.search(r"[A-Za-z]", part))


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~")) and not any(len(part) > 12 and is_mixed(part) for part in value.split("/"))


def forms_of(value: str) -> Iterator[str]:
    """Yield the forms of a secret in a text: as it is, escaped for programs, JSON, HTML and shells, URL-encoded, in
    hexadecimal, and in base64 at any alignment."""
    data = _bytes_of(value)
    yield value
    yield from sorted(set(_escaped_forms(value, data)) - {value})
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):
        # The context determines the digits at both ends, so only those in between are used.
        encoded = b64encode(b"\0" * shift + data).decode().rstrip("=")
        whole = encoded[(0, 2, 3)[shift] : len(encoded) - (1 if (shift + len(data)) % 3 else 0)]
        if len(whole) >= MIN_SECRET_CHARS:
            yield whole
            if (url_safe := whole.translate(_URL_SAFE)) != whole:
                yield url_safe


def _bytes_of(value: str) -> bytes:
    """Return the bytes as in an environment, whose values need not be valid text."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def _escaped_forms(value: str, data: bytes) -> Iterator[str]:
    """Yield escaped forms, which may include the value itself."""
    yield from (repr(value)[1:-1], quote(data, safe=""), quote(data), quote_plus(data))
    yield from (escape(value), escape(value, quote=False), value.replace("'", "'\\''"), value.replace("'", "'\"'\"'"))
    for written in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield from (written, written.replace("/", "\\/"))


_URL_SAFE = str.maketrans("+/", "-_")


def may_go_on(text: str, known: Iterable[str], most: int = 20_000) -> int:
    """Return the start of the last characters that may be part of an incomplete secret, or the length of the text."""
    found = len(text)
    if (match := _UNFINISHED_KEY_HEADER.search(text, max(len(text) - most, 0))) is not None:
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
    """Return the positions of all secrets in a text, in order and without overlaps. `known` maps forms of values to
    names."""
    found = [
        FoundSecret(match.start(), match.end(), name)
        for value, name in known.items()
        if value in text
        for match in re.finditer(re.escape(value), text)
    ]
    if known:
        found += pieces_in(text, known)
    if "PRIVATE KEY" in text:
        found += parts_of_keys(text)
    for name, hint, form in _FORMATS:
        if hint in text:
            found += [
                FoundSecret(match.start(), match.end(), name)
                for match in form.finditer(text)
                if len(set(match[0])) >= _MIN_DISTINCT_CHARS and "EXAMPLE" not in match[0]
            ]
    found.sort(key=lambda one: (one.start, -one.end))
    apart: list[FoundSecret] = []
    for one in found:
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return apart
