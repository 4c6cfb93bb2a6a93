"""Copies settings of package managers without passwords or tokens, so that commands can use the user's registries."""

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.key_formats import detect_secrets
from ebbtide.tools.secrets.redaction import SECRET_VALUE

NPM_SETTINGS_FILE = ".npmrc"
SETTINGS_FILES = (
    NPM_SETTINGS_FILE,
    ".yarnrc.yml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".curlrc",
    ".wgetrc",
)
"""Files below the home folder that contain registries, mirrors and proxies, but also passwords."""
NPM_SETTINGS_VARIABLES = ("NPM_CONFIG_USERCONFIG", "npm_config_userconfig")
"""Variables that name another npm settings file."""
_MAX_COPY_BYTES = 60_000
"""Maximum size of a copied file, in bytes. This is the capacity of a pipe."""
_SECRET_KEYWORD = regex(r"(?i)pass|pwd|token|secret|auth|cred|key|cert|user|login|cookie|header|private|otp|e?mail")
_URL_LOGIN = regex(r"(?<=://)[^/\s'\"]*@")
_HIGH_ENTROPY_TOKEN = regex(r"(?=\S*\d)(?=\S*[A-Z])(?=\S*[a-z])[A-Za-z0-9+_=-]{20,}")
_BLANK_OR_COMMENT = regex(r"\s*(?:[;#].*)?")


@dataclass(frozen=True, slots=True)
class SettingsCopy:
    """A copy of a settings file, as commands see it."""

    name: str
    """The usual name of the file."""
    text: str
    is_complete: bool


def copy_without_secrets(name: str, text: str, *, must_use_proxy: bool = False) -> SettingsCopy | None:
    """Copy the settings without secrets. None if that is not possible. npm's file is filtered line by line. Any other
    file is copied only if it contains no secrets. `must_use_proxy`: commands must use the sandbox's proxy, so a file
    that sets a proxy is not copied."""
    if len(text.encode()) > _MAX_COPY_BYTES:
        return None
    if name != NPM_SETTINGS_FILE:
        bypasses_proxy = must_use_proxy and "proxy" in text.casefold()
        return None if bypasses_proxy or _may_contain_secret(text) else SettingsCopy(name, text, is_complete=True)
    lines = text.splitlines(keepends=True)
    cleaned = (_URL_LOGIN.sub("", line) for line in lines)
    allowed_lines = "".join(
        line for line in cleaned if _BLANK_OR_COMMENT.fullmatch(line.rstrip()) or not _may_contain_secret(line)
    )
    return SettingsCopy(name, allowed_lines, is_complete=allowed_lines == text)


def strip_url_credentials(text: str) -> str:
    """Remove user names and passwords from every URL in text."""
    return _URL_LOGIN.sub("", text)


def _may_contain_secret(text: str) -> bool:
    match = (
        _SECRET_KEYWORD.search(text)
        or SECRET_VALUE.search(text)
        or _URL_LOGIN.search(text)
        or _HIGH_ENTROPY_TOKEN.search(text)
    )
    return bool(match or detect_secrets(text, {}))
