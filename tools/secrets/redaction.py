"""Texts without the secrets in them, as far as secrets can be told. Pure."""

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
"""Addresses with a password or a token in them, and keys that are known by how they begin."""

_SECRET_WORDS = r"key|token|bearer|secret|passw|auth|cred|sig\b"
_OPTION = regex(rf"--?[\w-]*(?:{_SECRET_WORDS})[\w-]*", re.IGNORECASE)
_FOLDERS = ("PWD", "OLDPWD")
_MAX_VALUE = 4096
"""Characters that a pattern below looks at, so that a long text is read in linear time."""
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
        # The options in which curl, wget, httpie, sshpass, mysql and docker take a password.
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
"""What a text must hold, in small letters, to be looked at, and what a secret looks like by what stands around it."""


def hidden_forms(environment: Mapping[str, str], known: Iterable[str] = ()) -> dict[str, str]:
    """All forms of the secrets of an environment and of those in `known`, with the names of their variables."""
    named = {value: name for name, value in environment.items() if SECRET_NAME.search(name) and name not in _FOLDERS}
    values = {**named, **known_secrets(environment), **dict.fromkeys(known, "")}
    return {form: name for value, name in values.items() if len(value) >= MIN_SECRET_CHARS for form in forms_of(value)}


def secret_places(text: str, forms: Mapping[str, str]) -> list[FoundSecret]:
    """Where secrets stand in a text, in order and apart from each other: in `forms` (of `hidden_forms`), known by their
    format, or likely by what stands around them."""
    found = [*secrets_in(text, forms), *likely_secrets(text)]
    apart: list[FoundSecret] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if apart and one.start < apart[-1].end:
            apart[-1] = FoundSecret(apart[-1].start, max(apart[-1].end, one.end), apart[-1].name)
        else:
            apart.append(one)
    return apart


def likely_secrets(text: str) -> Iterator[FoundSecret]:
    """What looks like a secret by what stands around it; some may be named twice."""
    lowered = text.lower()
    for pattern in (pattern for hints, pattern in _LIKELY if any(hint in lowered for hint in hints)):
        for match in pattern.finditer(text):
            yield FoundSecret(match.start("secret"), match.end("secret"), "")


def redact_text(text: str, environment: Mapping[str, str], known: Iterable[str] = ()) -> str:
    """The text without the secrets of the environment, without those in `known`, and without what looks like one."""
    return without_secrets(text, hidden_forms(environment, known))


def without_secrets(text: str, forms: Mapping[str, str]) -> str:
    """The text with `***` for each secret in it."""
    for found in reversed(secret_places(text, forms)):
        text = text[: found.start] + REDACTION_MARK + text[found.end :]
    return text


def without_password(url: str) -> str:
    """The address without the name and password that may be in it, and without the values of its query."""
    scheme, mark, rest = url.partition("://")
    rest, question, query = rest.partition("?")
    # A password with a `/` in it belongs to no address, but to somebody who has written one.
    is_odd = re.match(r"[^/@]*:(?!\d+(?:/|$))[^@]*/.*@", rest) is not None
    place, slash, path = ("@" + rest.rpartition("@")[2]).partition("/") if is_odd else rest.partition("/")
    if "@" in place:
        place = f"{REDACTION_MARK}@{place.rpartition('@')[2]}"
    return f"{scheme}{mark}{place}{slash}{path}{question}{re.sub(r'=[^&#]*', f'={REDACTION_MARK}', query)}"


def without_options(words: Sequence[str]) -> list[str]:
    """A command's words without what options such as `--api-key` are given."""
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
