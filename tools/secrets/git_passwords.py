"""Finds passwords and tokens in the URLs and request headers of Git settings."""

from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.key_formats import known_secrets
from ebbtide.tools.secrets.secret_fragments import MIN_SECRET_CHARS

_SECRET_NAME = "git-settings"
_LOGIN = regex(r"//(?P<user>[^/\s:@\"]*):(?P<password>[^/\s@\"]+)@")
_HEADER = regex(r"(?i)\bauthorization:[ \t]*(?:basic|bearer|token)[ \t]+(?P<secret>[^\s\"]{8,})")


def find_git_passwords(text: str) -> dict[str, str]:
    """Find the secrets to redact, with a name for each. A password that could be an ordinary word is redacted only
    together with the user name, as in a URL."""
    names_by_secret = known_secrets({_SECRET_NAME: text})
    for match in _LOGIN.finditer(text):
        if match["password"] not in names_by_secret and len(match[0]) >= MIN_SECRET_CHARS:
            names_by_secret[match[0]] = _SECRET_NAME
    names_by_secret |= {match["secret"]: _SECRET_NAME for match in _HEADER.finditer(text)}
    return names_by_secret
