"""Texts without the secrets in them, as far as secrets can be told. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping

HIDDEN = "***"
SHORTEST = 8
"""Characters of a value that is taken for a secret wherever it stands. A shorter one may be part of any word."""

SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEYS?|KEYS?|PASS|PASSWD|PASSPHRASE|PWD|PAT|CREDS?|AUTH|COOKIES?|DSN|BEARER|JWT)(?:_|$)"
    r"|TOKEN|PASSWORD|SECRET|CREDENTIAL",
    re.IGNORECASE,
)
"""Variables that hold secrets, by what they are called."""

SECRET_VALUE = re.compile(
    r"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{16,}@|-----BEGIN|\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA)"
    r"[A-Za-z0-9_-]{12}"
)
"""Addresses with a password or a token in them, and keys that are known by how they begin."""

_FOLDERS = ("PWD", "OLDPWD")
_PATTERNS = (
    (r"://[^/\s@'\"`]+@", f"://{HIDDEN}@"),
    (r"-----BEGIN[^-]*-----.*?(?:-----END[^-]*-----|\Z)", HIDDEN),
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {HIDDEN}"),
    (
        r"\b(?:(?:sk|pk|rk|xai)-|(?:gsk|hf|r8|sk|pk|rk)_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA|AIza|eyJ)"
        r"(?=[\w.-]*\d)[\w.-]{8,}",
        HIDDEN,
    ),
    (
        r"(?i)((?:api[_-]?key|token|secret|password|passwd|authorization|cookie)['\"]?\s*[:=]\s*b?['\"]?)"
        r"(?=[^\s'\",)]*\d)[^\s'\",)]{8,}",
        rf"\1{HIDDEN}",
    ),
)


def redacted(text: str, environment: Mapping[str, str], known: Iterable[str] = ()) -> str:
    """The text without the secrets of the environment, without those in `known`, and without what looks like one."""
    for value in sorted({*_secrets_in(environment), *known}, key=len, reverse=True):
        if len(value) >= SHORTEST:
            text = text.replace(value, HIDDEN).replace(repr(value)[1:-1], HIDDEN)
    for pattern, instead in _PATTERNS:
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    return text


def without_password(url: str) -> str:
    """The address without the name and password that may be in it."""
    scheme, mark, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{mark}{HIDDEN}@{place.rpartition('@')[2]}{slash}{path}" if "@" in place else url


def _secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    return (value for name, value in environment.items() if SECRET_NAME.search(name) and name not in _FOLDERS)
