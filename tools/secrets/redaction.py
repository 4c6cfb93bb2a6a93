"""Texts without the secrets in them, as far as secrets can be told. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.lazy import regex
from tools.secrets.key_formats import SECRET_NAME, forms_of, secrets_in
from tools.secrets.secret_pieces import SHORTEST

HIDDEN = "***"
SECRET_VALUE = regex(
    r"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{16,}@|-----BEGIN|\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA)"
    r"[A-Za-z0-9_-]{12}"
)
"""Addresses with a password or a token in them, and keys that are known by how they begin."""

_SAYS_SECRET = r"key|token|bearer|secret|passw|auth|cred|sig\b"
_OPTION = regex(rf"--?[\w-]*(?:{_SAYS_SECRET})[\w-]*", re.IGNORECASE)
_FOLDERS = ("PWD", "OLDPWD")
_PATTERNS = (
    (r"://[^/\s@'\"`]+@", f"://{HIDDEN}@"),
    (rf"(?i)([?&][^=&\s'\"`]*(?:{_SAYS_SECRET})[^=&\s'\"`]*=)[^&\s'\"`#]+", rf"\1{HIDDEN}"),
    (r"(?i)\b(hooks\.slack\.com/services/)[\w/-]+", rf"\1{HIDDEN}"),
    (r"-----BEGIN[^-]*-----.*?(?:-----END[^-]*-----|\Z)", HIDDEN),
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {HIDDEN}"),
    (
        r"\b(?:(?:sk|pk|rk|xai)-|(?:gsk|hf|r8|sk|pk|rk)_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA|AIza|eyJ)"
        r"(?=[\w.-]*\d)[\w.-]{8,}",
        HIDDEN,
    ),
    (
        r"(?i)((?:(?:api|access)[_-]?key|token|secret|password|passwd|authorization|cookie)['\"]?\s*[:=]\s*b?['\"]?)"
        r"(?=[^\s'\",)]*\d)[^\s'\",)]{8,}",
        rf"\1{HIDDEN}",
    ),
)


def redacted(text: str, environment: Mapping[str, str], known: Iterable[str] = ()) -> str:
    """The text without the secrets of the environment, without those in `known`, and without what looks like one."""
    for value in sorted({*_secrets_in(environment), *known}, key=len, reverse=True):
        if len(value) >= SHORTEST:
            for form in forms_of(value):
                text = text.replace(form, HIDDEN)
    for found in reversed(secrets_in(text, {})):
        text = text[: found.start] + HIDDEN + text[found.end :]
    for pattern, instead in _PATTERNS:
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    return text


def without_password(url: str) -> str:
    """The address without the name and password that may be in it, and without the values of its query."""
    scheme, mark, rest = url.partition("://")
    rest, question, query = rest.partition("?")
    # A password with a `/` in it belongs to no address, but to somebody who has written one.
    is_odd = re.match(r"[^/@]*:(?!\d+(?:/|$))[^@]*/.*@", rest) is not None
    place, slash, path = ("@" + rest.rpartition("@")[2]).partition("/") if is_odd else rest.partition("/")
    if "@" in place:
        place = f"{HIDDEN}@{place.rpartition('@')[2]}"
    return f"{scheme}{mark}{place}{slash}{path}{question}{re.sub(r'=[^&#]*', f'={HIDDEN}', query)}"


def without_options(words: Sequence[str]) -> list[str]:
    """A command's words without what options such as `--api-key` are given."""
    shown: list[str] = []
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_named = _OPTION.fullmatch(name) is not None
        shown.append(
            HIDDEN if is_value and not word.startswith("-") else f"{name}={HIDDEN}" if is_named and equals else word
        )
        is_value = is_named and not equals
    return shown


def _secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    return (value for name, value in environment.items() if SECRET_NAME.search(name) and name not in _FOLDERS)
