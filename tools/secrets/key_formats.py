"""Detects secrets in text: known values, and keys with an unmistakable format."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote

from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.secret_fragments import (
    MIN_SECRET_CHARS,
    SecretSpan,
    find_private_key_parts,
    find_secret_fragments,
    looks_random,
)

SECRET_VARIABLE_NAME = regex(
    r"(?:^|[^a-z0-9])(?:KEYS?|PASS|PASSWD|PWD|PAT|CREDS?|AUTH|COOKIES?|DSN|BEARER|JWT|SAS)(?:[^a-z0-9]|$)"
    r"|TOKEN|PASSWORD|PASSPHRASE|SECRET|CREDENTIAL|(?:API|ACCESS|PRIVATE)[^a-z0-9]?KEY|WEBHOOK|CONNECTION_?STRING|MNEMONIC",
    re.IGNORECASE,
)
"""Matches names of variables that contain secrets."""

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_HTML_QUOTED = _HTML | str.maketrans({'"': "&quot;", "'": "&#x27;"})
"""Escapes of `html.escape`, whose module takes 1 ms to load."""

_MIN_DISTINCT_CHARS = 8
"""Minimum number of distinct characters in a key. Text with fewer is an example (`AKIAXXXXXXXXXXXXXXXX`)."""

_KEY_FORMATS = (
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
"""For each format: its name, a substring that the text must contain, and the pattern."""

_UNFINISHED_KEY_HEADER = regex(r"-----BEGIN [A-Z0-9 ]*-{0,5}[^-]*-{0,5}[A-Z0-9 ]*-{0,4}\Z")
_FINAL_WORD = regex(r"[A-Za-z0-9_.-]+\Z")
_KEY_PREFIXES = (
    *("-----BEGIN ", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "AIza"),
    *("xox", "sk_live_", "rk_live_", "npm_", "pypi-AgE", "SG.", "hf_", "eyJ"),
)

_URL_CREDENTIALS = regex(r"://(?:[^/\s:@]*:([^/\s@]+)|([^/\s:@]{16,}))@")
"""Matches credentials before the host in a URL: a user name and a password, or only a token."""
_SCHEME = regex(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_POSSIBLE_SECRET = regex(r"[A-Za-z0-9+/_-]{16,}={0,2}")
"""Matches a possible secret within a compound value: a list, a cookie, JSON, a connection string."""


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secret values in an environment, each with its variable's name. Paths and plain words are excluded,
    because they occur in ordinary text."""
    name_by_value: dict[str, str] = {}
    for name, value in environment.items():
        passwords = [match[1] or match[2] for match in _URL_CREDENTIALS.finditer(value)]
        candidates = passwords or (_possible_secrets(value) if SECRET_VARIABLE_NAME.search(name) else ())
        for secret in (*candidates, *map(unquote, passwords)):
            if len(secret) >= MIN_SECRET_CHARS and not _is_path(secret) and not (secret.isalpha() and secret.islower()):
                name_by_value.setdefault(secret, name)
    return name_by_value


def _possible_secrets(value: str) -> Iterator[str]:
    """Yield a value and the possible secrets within it."""
    stripped = value.strip().strip("\"'")
    yield value
    yield stripped
    if (scheme := _SCHEME.match(stripped)) is not None:
        yield stripped[scheme.end() :]
    if stripped.count(":") == 1 and not re.search(r"[\s/]", stripped):  # `user:password`
        yield stripped.partition(":")[2]
    yield from (
        word for word in _POSSIBLE_SECRET.findall(stripped) if re.search(r"\d", word) and re.search(r"[A-Za-z]", word)
    )


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~")) and not any(
        len(component) > 12 and looks_random(component) for component in value.split("/")
    )


def secret_encodings(value: str) -> Iterator[str]:
    """Yield the forms in which a secret may occur in text: unchanged, escaped for programs, JSON, HTML and shells,
    URL-encoded, in hexadecimal, and in base64 at any alignment."""
    data = _environment_bytes(value)
    yield value
    yield from sorted(set(_escaped_encodings(value, data)) - {value})
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):
        # The digits at both ends depend on the neighbouring bytes, so only those in between are used.
        encoded = b64encode(b"\0" * shift + data).decode().rstrip("=")
        stable_part = encoded[(0, 2, 3)[shift] : len(encoded) - (1 if (shift + len(data)) % 3 else 0)]
        if len(stable_part) >= MIN_SECRET_CHARS:
            yield stable_part
            if (url_safe := stable_part.translate(_URL_SAFE)) != stable_part:
                yield url_safe


def _environment_bytes(value: str) -> bytes:
    """Return the bytes of an environment value, which need not be valid text."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def _escaped_encodings(value: str, data: bytes) -> Iterator[str]:
    """Yield the escaped forms of a value; the value itself may be among them."""
    yield from (repr(value)[1:-1], quote(data, safe=""), quote(data), quote_plus(data))
    yield from (
        value.translate(_HTML_QUOTED),
        value.translate(_HTML),
        value.replace("'", "'\\''"),
        value.replace("'", "'\"'\"'"),
    )
    for json_text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield from (json_text, json_text.replace("/", "\\/"))


_URL_SAFE = str.maketrans("+/", "-_")


def find_incomplete_secret(text: str, known_values: Iterable[str], max_chars: int = 20_000) -> int:
    """Return the offset from which the rest of the text may be the beginning of a secret. If there is none, return the
    length of the text."""
    offset = len(text)
    if (match := _UNFINISHED_KEY_HEADER.search(text, max(len(text) - max_chars, 0))) is not None:
        offset = match.start()
    if (match := _FINAL_WORD.search(text, max(len(text) - max_chars, 0))) is not None:
        word = match[0]
        if any(prefix in word or _ends_with_prefix_of(word, prefix) for prefix in _KEY_PREFIXES):
            offset = min(offset, match.start())
    for value in known_values:
        for length in range(min(len(value) - 1, len(text)), 0, -1):
            if text.endswith(value[:length]):
                offset = min(offset, len(text) - length)
                break
    return offset


def _ends_with_prefix_of(text: str, value: str) -> bool:
    return any(text.endswith(value[:length]) for length in range(min(len(value), len(text)), 0, -1))


def detect_secrets(text: str, names_by_encoding: Mapping[str, str]) -> list[SecretSpan]:
    """Find all secrets in text, in order and without overlaps. `names_by_encoding`: maps the forms of known values to
    their names."""
    secrets = [
        SecretSpan(match.start(), match.end(), name)
        for value, name in names_by_encoding.items()
        if value in text
        for match in re.finditer(re.escape(value), text)
    ]
    if names_by_encoding:
        secrets += find_secret_fragments(text, names_by_encoding)
    if "PRIVATE KEY" in text:
        secrets += find_private_key_parts(text)
    for name, hint, pattern in _KEY_FORMATS:
        if hint in text:
            secrets += [
                SecretSpan(match.start(), match.end(), name)
                for match in pattern.finditer(text)
                if len(set(match[0])) >= _MIN_DISTINCT_CHARS and "EXAMPLE" not in match[0]
            ]
    return merge_overlapping(secrets)


def merge_overlapping(secrets: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return the secrets in order, with overlapping ones merged. A merged secret gets the name of the first."""
    merged: list[SecretSpan] = []
    for secret in sorted(secrets, key=lambda secret: (secret.start, -secret.end)):
        if merged and secret.start < merged[-1].end:
            merged[-1] = SecretSpan(merged[-1].start, max(merged[-1].end, secret.end), merged[-1].name)
        else:
            merged.append(secret)
    return merged
