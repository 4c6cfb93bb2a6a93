"""Redacts secrets in texts, as far as they can be detected. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.key_formats import SECRET_NAME, forms_of, known_secrets, secrets_in
from ebbtide.tools.secrets.secret_pieces import MIN_SECRET_CHARS, FoundSecret

REDACTION_MARK = "***"
SECRET_VALUE = regex(
    r"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{16,}@|-----BEGIN|\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA)"
    r"[A-Za-z0-9_-]{12}"
)
"""Addresses with a password or token, and keys with a known prefix."""

_SECRET_WORDS = r"key|token|bearer|secret|passw|auth|cred|sig\b"
_OPTION = regex(rf"--?[\w-]*(?:{_SECRET_WORDS})[\w-]*", re.IGNORECASE)
_FOLDERS = ("PWD", "OLDPWD")
_MAX_VALUE = 4096
"""Maximum number of characters examined by a pattern below, so that long texts take linear time."""
_LIKELY = tuple(
    (hints, regex(pattern, re.DOTALL))
    for hints, pattern in (
        (("@",), r"://(?P<secret>[^/\s@'\"`]+)@"),
        (("=",), rf"(?i)[?&][^=&\s'\"`]*(?:{_SECRET_WORDS})[^=&\s'\"`]*=(?P<secret>[^&\s'\"`#]+)"),
        (("hooks.slack",), r"(?i)\bhooks\.slack\.com/services/(?P<secret>[\w/-]+)"),
        (
            ("private key",),
            rf"(?P<secret>-----BEGIN [A-Z0-9 ]*PRIVATE KEY[^-]*-----.{{0,{_MAX_VALUE}}}?(?:-----END[^-]*-----|\Z))",
        ),
        (("bearer", "basic"), r"(?i)\b(?:bearer|basic)\s+(?P<secret>[\w.~+/=-]{8,})"),
        (
            ("sk", "pk", "rk", "xai-", "hf_", "r8_", "gh", "glpat-", "xox", "npm_", "pypi-", "akia", "aiza", "eyj"),
            r"\b(?P<secret>(?:(?:[spr]k|xai)-|(?:gsk|hf|r8|[spr]k)_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA"
            r"|AIza|eyJ)(?=[\w.-]*\d)[\w.-]{8,})",
        ),
        (
            ("key", "token", "secret", "passw", "authorization", "cookie"),
            r"(?i)(?:(?:api|access)[_-]?key|token|secret|password|passwd|authorization|cookie)['\"]?\s*[:=]\s*b?['\"]?"
            r"(?=[^\s'\",)]*\d)(?P<secret>[^\s'\",)]{8,})",
        ),
        (
            ("passw", "passphrase", "pwd", "secret"),
            r"(?i)(?:password|passwd|passphrase|pwd|secret)\\?['\"]?\s*[:=]\s*\\?['\"](?P<secret>[^'\"\s\\]{4,})\\?['\"]",
        ),
        # Password options of curl, wget, httpie, sshpass, mysql and docker.
        (
            ("-u", "--user", "--proxy-user", "-a", "--auth"),
            r"(?:^|\s)(?:-u|--user|-U|--proxy-user|-a|--auth)(?:\s+|=)?['\"]?(?!\d+:\d+\b)[^\s'\":/=]+:(?P<secret>[^\s'\"/]{3,})",
        ),
        (
            ("password", "passphrase", "api-key", "token", "secret"),
            r"(?i)(?:^|\s)--?[a-z-]*(?:password|passphrase|api-key|token|secret)(?:\s+|=)['\"]?(?P<secret>[^\s'\"-][^\s'\"]{3,})",
        ),
        (
            ("sshpass", "docker", "mysql", "mariadb"),
            r"\b(?:sshpass\s+-p|docker\s+login\b[^\n|;&]{0,200}?\s-p|(?:mysql|mysqldump|mariadb)\b[^\n|;&]{0,200}?\s-p)\s?['\"]?"
            r"(?P<secret>[^\s'\"]{3,})",
        ),
    )
)
"""Substrings that the lower-cased text must contain, and a pattern for secrets recognisable by their context."""


def hidden_forms(environment: Mapping[str, str], known: Iterable[str] = ()) -> dict[str, str]:
    """Return all forms of an environment's secrets and of those in `known`, with the names of their variables."""
    named = {value: name for name, value in environment.items() if SECRET_NAME.search(name) and name not in _FOLDERS}
    values = {**named, **known_secrets(environment), **dict.fromkeys(known, "")}
    return {form: name for value, name in values.items() if len(value) >= MIN_SECRET_CHARS for form in forms_of(value)}


def secret_places(text: str, forms: Mapping[str, str]) -> list[FoundSecret]:
    """Return the positions of secrets, in order and without overlaps: those in `forms` (from `hidden_forms`), in a
    known format, or likely from their context."""
    found = [*secrets_in(text, forms), *likely_secrets(text)]
    apart: list[FoundSecret] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if apart and one.start < apart[-1].end:
            apart[-1] = FoundSecret(apart[-1].start, max(apart[-1].end, one.end), apart[-1].name)
        else:
            apart.append(one)
    return apart


def likely_secrets(text: str) -> Iterator[FoundSecret]:
    """Yield secrets that are likely from their context, possibly with duplicates."""
    lowered = text.lower()
    for pattern in (pattern for hints, pattern in _LIKELY if any(hint in lowered for hint in hints)):
        for match in pattern.finditer(text):
            yield FoundSecret(match.start("secret"), match.end("secret"), "")


def redact_text(text: str, environment: Mapping[str, str], known: Iterable[str] = ()) -> str:
    """Return the text without secrets of the environment, those in `known`, and likely ones."""
    return without_secrets(text, hidden_forms(environment, known))


def without_secrets(text: str, forms: Mapping[str, str]) -> str:
    """Return the text with each secret replaced by `***`."""
    for found in reversed(secret_places(text, forms)):
        text = text[: found.start] + REDACTION_MARK + text[found.end :]
    return text


def without_password(url: str) -> str:
    """Return the address without user name, password and query values."""
    scheme, mark, rest = url.partition("://")
    rest, question, query = rest.partition("?")
    # A `/` in a password is invalid, but people write it.
    is_odd = re.match(r"[^/@]*:(?!\d+(?:/|$))[^@]*/.*@", rest) is not None
    place, slash, path = ("@" + rest.rpartition("@")[2]).partition("/") if is_odd else rest.partition("/")
    if "@" in place:
        place = f"{REDACTION_MARK}@{place.rpartition('@')[2]}"
    return f"{scheme}{mark}{place}{slash}{path}{question}{re.sub(r'=[^&#]*', f'={REDACTION_MARK}', query)}"


def without_options(words: Sequence[str]) -> list[str]:
    """Return a command's words without the values of options such as `--api-key`."""
    shown: list[str] = []
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_named = _OPTION.fullmatch(name) is not None
        shown.append(
            REDACTION_MARK
            if is_value and not word.startswith("-")
            else f"{name}={REDACTION_MARK}"
            if is_named and equals
            else word
        )
        is_value = is_named and not equals
    return shown
