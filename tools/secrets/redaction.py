"""Texts without the secrets in them, as far as secrets can be told. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.lazy import regex
from tools.secrets.key_formats import SECRET_NAME, forms_of, known_secrets, secrets_in
from tools.secrets.secret_pieces import SHORTEST, FoundSecret

HIDDEN = "***"
SECRET_VALUE = regex(
    r"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{16,}@|-----BEGIN|\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA)"
    r"[A-Za-z0-9_-]{12}"
)
"""Addresses with a password or a token in them, and keys that are known by how they begin."""

_SAYS_SECRET = r"key|token|bearer|secret|passw|auth|cred|sig\b"
_OPTION = regex(rf"--?[\w-]*(?:{_SAYS_SECRET})[\w-]*", re.IGNORECASE)
_FOLDERS = ("PWD", "OLDPWD")
_MAX_VALUE = 4096
"""Characters that a pattern below looks at, so that a long text is read in linear time."""
_COMMAND = r"(?:[^\n|;&]|&(?=\S)|\\\n){0,200}?"
"""What stands between a program and its options, on this line and those that continue it."""
_LIKELY = tuple(
    (hints, regex(pattern, re.DOTALL))
    for hints, pattern in (
        (("@",), r"://(?P<secret>(?=[^/\s@'\"`]*(?::|\d)|[^/\s@'\"`]{16})[^/\s@'\"`]+)@"),
        (
            ("=",),
            rf"(?i)[?&](?!(?:author\w*|keywords?|authuser)=)[^=&\s'\"`]*(?:{_SAYS_SECRET}|signature)[^=&\s'\"`]*="
            r"(?P<secret>[^&\s'\"`#]+)",
        ),
        (
            ("hooks.slack", "api/webhooks/"),
            r"(?i)\b(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/(?P<secret>[\w/-]+)",
        ),
        (
            ("private key",),
            rf"(?P<secret>-----BEGIN [A-Z0-9 ]*PRIVATE KEY[^-]*-----.{{0,{_MAX_VALUE}}}?(?:-----END[^-]*-----|\Z))",
        ),
        (
            ("bearer", "basic", "authorization"),
            r"(?i)(?:authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)\s+"
            r"|\b(?:bearer|basic)\s+(?=[\w.~+/-]*[\d=]|[\w.~+/-]*(?-i:[a-z][A-Z])))(?P<secret>[\w.~+/=-]{8,})",
        ),
        (
            ("sk", "pk", "rk", "xai-", "hf_", "r8_", "gh", "glpat-", "xox", "npm_", "pypi-", "akia", "aiza", "eyj"),
            r"\b(?P<secret>(?:(?:[spr]k|xai)-|(?:gsk|hf|r8|[spr]k)_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-|AKIA"
            r"|AIza|eyJ)(?=[\w.-]*\d)[\w.-]{8,})",
        ),
        # What other services begin their keys with.
        (
            (
                *(
                    "whsec_",
                    "_v1_",
                    "shp",
                    "dckr_",
                    "lin_api_",
                    "sntry",
                    "tfp_",
                    "pscale_",
                    "figd_",
                    "sbp_",
                    "glsa_",
                    "gl",
                ),
                *("ya29.", "hvs.", "hvb.", "1//0", "eaac", "att3", "nrak-", "dapi", "pplx-", "key-"),
            ),
            r"\b(?P<secret>(?:whsec|do[opr]_v1|shp(?:at|ca|pa|ss)|dckr_pat|lin_api|sntry[su]|tfp|pscale_(?:tkn|pw|oauth)|figd"
            r"|sbp|glsa)_[\w.+/=-]{20,}|gl(?:dt|rt|ptt|cbt|soat|ft|imt|agent)-[\w-]{20,}|ya29\.[\w-]{20,}|hv[sb]\.[\w-]{20,}"
            r"|1//0[\w-]{30,}|EAAC[A-Za-z0-9]{30,}|ATC?ATT3[\w=-]{20,}|NRAK-[A-Z0-9]{27}|dapi[a-f0-9]{32}|pplx-[A-Za-z0-9]{40,}"
            r"|key-[a-z0-9]{32}|AGE-SECRET-KEY-1[A-Z0-9]{40,})",
        ),
        (("/bot", ":aa"), r"(?:\b|/bot)(?P<secret>\d{8,10}:(?:AA|(?<=/bot\d{9}:)|(?<=/bot\d{10}:))[\w-]{30,})"),
        (
            ("key", "token", "secret", "passw", "authorization", "cookie"),
            r"(?i)(?:(?:api|access|account|secret)[_-]?key|token|secret|password|passwd|authorization|cookie)['\"]?\s*[:=]\s*b?['\"]?"
            r"(?![\w.]+[(\[])(?=[^\s'\",)]*\d)(?P<secret>[^\s'\",);]{8,})",
        ),
        (
            ("passw", "passphrase", "pwd", "secret"),
            r"(?i)(?:password|passwd|passphrase|pwd|secret)\\?['\"]?\s*[:=]\s*\\?['\"](?P<secret>[^'\"\s\\]{4,})\\?['\"]",
        ),
        # As environments, .npmrc and .netrc have them, where no quotes stand around.
        (
            ("password=", "passwd=", "_pwd=", "pgpassword=", "passphrase=", "_auth="),
            r"(?:\b[A-Z][A-Z0-9_]*(?:PASSWORD|PASSWD|_PWD|PASSPHRASE)=|\b_auth=)(?P<secret>[^\s'\"$(<{/.][^\s'\"]{3,})",
        ),
        (("login ",), r"\blogin\s+\S+\s+password\s+(?P<secret>\S{4,})"),
        (("pass:",), r"\s-pass(?:in|out)?\s+pass:(?P<secret>[^\s'\"]{3,})"),
        # The options in which curl, wget, httpie, sshpass, mysql and docker take a password.
        (
            ("curl", "http", "xh", "wget"),
            rf"\b(?:curl|https?|xh|wget)(?=['\"]?,?\s){_COMMAND}['\"\s]"
            r"(?:-[A-Za-z]*u|--user|-U|--proxy-user|-a|--auth)['\"]?,?(?:\s+|=)?['\"]?"
            r"(?![a-z]+://)[^\s'\":/=]+:(?P<secret>[^\s'\"/]{3,})",
        ),
        (
            ("-u", "--user", "--proxy-user", "--auth"),
            r"^\s*(?:-u|--user|-U|--proxy-user|--auth)(?:\s+|=)?['\"]?(?!\d+:\d+\b)(?P<user>[^\s'\":/=]+)"
            r":(?!(?P=user)\b)(?P<secret>[^\s'\"/]{3,})",
        ),
        (
            ("password", "passphrase", "api-key", "token", "secret"),
            r"(?i)(?:^|\s)--?[a-z-]*(?:password|passphrase|api-key|token|secret)(?:\s+|=)['\"]?(?!(?:id|type)=)"
            r"(?P<secret>[^\s'\"-][^\s'\"]{3,})",
        ),
        (
            ("sshpass", "docker", "mysql", "mariadb"),
            rf"\b(?:sshpass\s+-p|docker\s+login\b{_COMMAND}\s-p|(?:mysql|mysqldump|mariadb)\b{_COMMAND}\s-p)\s?['\"]?"
            r"(?P<secret>[^\s'\"]{3,})",
        ),
    )
)
"""What a text must hold, in small letters, to be looked at, and what a secret looks like by what stands around it."""


def hidden_forms(environment: Mapping[str, str], known: Iterable[str] = ()) -> dict[str, str]:
    """All forms of the secrets of an environment and of those in `known`, with the names of their variables."""
    named = {value: name for name, value in environment.items() if SECRET_NAME.search(name) and name not in _FOLDERS}
    values = {**named, **known_secrets(environment), **dict.fromkeys(known, "")}
    return {form: name for value, name in values.items() if len(value) >= SHORTEST for form in forms_of(value)}


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


def redacted(text: str, environment: Mapping[str, str], known: Iterable[str] = ()) -> str:
    """The text without the secrets of the environment, without those in `known`, and without what looks like one."""
    return without_secrets(text, hidden_forms(environment, known))


def without_secrets(text: str, forms: Mapping[str, str]) -> str:
    """The text with `***` for each secret in it."""
    for found in reversed(secret_places(text, forms)):
        text = text[: found.start] + HIDDEN + text[found.end :]
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
