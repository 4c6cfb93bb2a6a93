"""Settings of package managers without passwords and tokens, so that commands use the user's registries. Pure."""

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.key_formats import secrets_in
from ebbtide.tools.secrets.redaction import SECRET_VALUE

NPM = ".npmrc"
SETTINGS_FILES = (NPM, ".yarnrc.yml", ".m2/settings.xml", ".gradle/gradle.properties", ".curlrc", ".wgetrc")
"""Below the home folder: files in which registries, mirrors and proxies stand beside passwords."""
NAMED_SETTINGS = ("NPM_CONFIG_USERCONFIG", "npm_config_userconfig")
"""Variables that name such a file of npm elsewhere."""
_MAX_BYTES = 60_000
"""Of a file that is copied: what a pipe holds."""
_MAY_BE_SECRET = regex(r"(?i)pass|pwd|token|secret|auth|cred|key|cert|user|login|cookie|header|private|otp|e?mail")
_LOGIN = regex(r"(?<=://)[^/\s'\"]*@")
_RANDOM = regex(r"(?=\S*\d)(?=\S*[A-Z])(?=\S*[a-z])[A-Za-z0-9+_=-]{20,}")
_NPM_SECTION = regex(r"\s*(?:[;#].*)?")


@dataclass(frozen=True, slots=True)
class SettingsCopy:
    """What commands see of such a file."""

    name: str
    """The usual name of the file."""
    text: str
    is_whole: bool


def copy_without_secrets(name: str, text: str, *, goes_by_proxy: bool = False) -> SettingsCopy | None:
    """The settings that hold no secret. Of npm's each line is judged by itself; another file is whole or none. None
    also of one that names a proxy where commands have to use that of the sandbox (`goes_by_proxy`)."""
    if len(text.encode()) > _MAX_BYTES:
        return None
    if name != NPM:
        leads_past = goes_by_proxy and "proxy" in text.casefold()
        return None if leads_past or _may_hold_secret(text) else SettingsCopy(name, text, is_whole=True)
    lines = text.splitlines(keepends=True)
    cleaned = (_LOGIN.sub("", line) for line in lines)
    kept = "".join(line for line in cleaned if _NPM_SECTION.fullmatch(line.rstrip()) or not _may_hold_secret(line))
    return SettingsCopy(name, kept, is_whole=kept == text)


def without_login(address: str) -> str:
    """An address, or a list of them, without names and passwords."""
    return _LOGIN.sub("", address)


def _may_hold_secret(text: str) -> bool:
    found = _MAY_BE_SECRET.search(text) or SECRET_VALUE.search(text) or _LOGIN.search(text) or _RANDOM.search(text)
    return bool(found or secrets_in(text, {}))
