"""Redacts secrets in text, as far as they can be detected."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.key_formats import (
    SECRET_VARIABLE_NAME,
    detect_secrets,
    known_secrets,
    merge_overlapping,
    secret_encodings,
)
from ebbtide.tools.secrets.secret_fragments import MIN_SECRET_CHARS, SecretSpan

REDACTION_MARK = "***"
SECRET_VALUE = regex(
    r"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{16,}@|-----BEGIN|\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA)"
    r"[A-Za-z0-9_-]{12}"
)
"""Matches URLs with a password or token, and keys with a known prefix."""

_SECRET_WORDS = r"key|token|bearer|secret|passw|auth|cred|sig\b"
_SECRET_OPTION = regex(rf"--?[\w-]*(?:{_SECRET_WORDS})[\w-]*", re.IGNORECASE)
_FOLDER_VARIABLES = ("PWD", "OLDPWD")
_MAX_VALUE_CHARS = 4096
"""Maximum number of characters that a pattern below may examine, so that long text takes only linear time."""
_CONTEXT_PATTERNS = tuple(
    (hints, regex(pattern, re.DOTALL))
    for hints, pattern in (
        (("@",), r"://(?P<secret>[^/\s@'\"`]+)@"),
        (("=",), rf"(?i)[?&][^=&\s'\"`]*(?:{_SECRET_WORDS})[^=&\s'\"`]*=(?P<secret>[^&\s'\"`#]+)"),
        (("hooks.slack",), r"(?i)\bhooks\.slack\.com/services/(?P<secret>[\w/-]+)"),
        (
            ("private key",),
            rf"(?P<secret>-----BEGIN [A-Z0-9 ]*PRIVATE "
            rf"KEY[^-]*-----.{{0,{_MAX_VALUE_CHARS}}}?(?:-----END[^-]*-----|\Z))",
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
        # Options for passwords in curl, wget, httpie, sshpass, mysql and docker.
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
"""Patterns for secrets that can be recognised by their context. Each pattern comes with substrings, and the lower-cased
text must contain at least one of them."""


_registered_secrets: set[str] = set()


def register_secret(value: str) -> None:
    """Redact this value in all text from now on, in this process. Meant for secrets that are not in its environment."""
    _registered_secrets.add(value)


def secret_names_by_encoding(environment: Mapping[str, str], known_values: Iterable[str] = ()) -> dict[str, str]:
    """Map each encoding of a secret (as it is, in Base64, in a URL) to the secret's name. This is the variable's name
    for a secret in the environment, and empty for `known_values` and registered secrets."""
    names_by_value = {
        value: name
        for name, value in environment.items()
        if SECRET_VARIABLE_NAME.search(name) and name not in _FOLDER_VARIABLES
    }
    values = {
        **names_by_value,
        **known_secrets(environment),
        **dict.fromkeys((*known_values, *_registered_secrets), ""),
    }
    return {
        encoding: name
        for value, name in values.items()
        if len(value) >= MIN_SECRET_CHARS
        for encoding in secret_encodings(value)
    }


def find_secrets(text: str, names_by_encoding: Mapping[str, str]) -> list[SecretSpan]:
    """Find the secrets in text, in order and without overlaps: those in `names_by_encoding` (from
    `secret_names_by_encoding`), those in a known format, and those that are likely from their context."""
    return merge_overlapping([*detect_secrets(text, names_by_encoding), *find_likely_secrets(text)])


def find_likely_secrets(text: str) -> Iterator[SecretSpan]:
    """Yield the parts of text that are probably secrets, judging by their context. May contain duplicates."""
    lowered = text.lower()
    for pattern in (pattern for hints, pattern in _CONTEXT_PATTERNS if any(hint in lowered for hint in hints)):
        for match in pattern.finditer(text):
            yield SecretSpan(match.start("secret"), match.end("secret"), "")


def redact_text(text: str, environment: Mapping[str, str], known_values: Iterable[str] = ()) -> str:
    """Redact the environment's secrets, those in `known_values`, and likely secrets."""
    return redact_secrets(text, secret_names_by_encoding(environment, known_values))


def redact_secrets(text: str, names_by_encoding: Mapping[str, str]) -> str:
    """Replace each secret with `***`."""
    for secret in reversed(find_secrets(text, names_by_encoding)):
        text = text[: secret.start] + REDACTION_MARK + text[secret.end :]
    return text


def redact_url(url: str) -> str:
    """Redact credentials and query values in a URL."""
    scheme, separator, remainder = url.partition("://")
    remainder, question, query = remainder.partition("?")
    # A `/` in a password is invalid, but people write it.
    has_slash_in_password = re.match(r"[^/@]*:(?!\d+(?:/|$))[^@]*/.*@", remainder) is not None
    authority, slash, path = (
        ("@" + remainder.rpartition("@")[2]).partition("/") if has_slash_in_password else remainder.partition("/")
    )
    if "@" in authority:
        authority = f"{REDACTION_MARK}@{authority.rpartition('@')[2]}"
    return f"{scheme}{separator}{authority}{slash}{path}{question}{re.sub(r'=[^&#]*', f'={REDACTION_MARK}', query)}"


def redact_options(words: Sequence[str]) -> list[str]:
    """Redact the values of options such as `--api-key` in a command's words."""
    redacted: list[str] = []
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_secret_option = _SECRET_OPTION.fullmatch(name) is not None
        redacted.append(
            REDACTION_MARK
            if is_value and not word.startswith("-")
            else f"{name}={REDACTION_MARK}"
            if is_secret_option and equals
            else word
        )
        is_value = is_secret_option and not equals
    return redacted
