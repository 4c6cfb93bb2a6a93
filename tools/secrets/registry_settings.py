"""Settings of package managers without passwords and tokens, so that commands can use the user's registries. Pure."""

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.key_formats import secrets_in
from ebbtide.tools.secrets.redaction import SECRET_VALUE

NPM = ".npmrc"
SETTINGS_FILES = (NPM, ".yarnrc.yml", ".m2/settings.xml", ".gradle/gradle.properties", ".curlrc", ".wgetrc")
"""Files below the home folder that contain registries, mirrors and proxies as well as passwords."""
NAMED_SETTINGS = ("NPM_CONFIG_USERCONFIG", "npm_config_userconfig")
"""Variables that name another npm settings file."""
_MAX_BYTES = 60_000
"""Maximum size in bytes of a copied file: the capacity of a pipe."""
_MAY_BE_SECRET = regex(r"(?i)pass|pwd|token|secret|auth|cred|key|cert|user|login|cookie|header|private|otp|e?mail")
_LOGIN = regex(r"(?<=://)[^/\s'\"]*@")
_RANDOM = regex(r"(?=\S*\d)(?=\S*[A-Z])(?=\S*[a-z])[A-Za-z0-9+_=-]{20,}")
_NPM_SECTION = regex(r"\s*(?:[;#].*)?")


@dataclass(frozen=True, slots=True)
class SettingsCopy:
    """The copy of such a file that commands see."""

    name: str
    """The usual name of the file."""
    text: str
    is_whole: bool


def copy_without_secrets(name: str, text: str, *, goes_by_proxy: bool = False) -> SettingsCopy | None:
    """Return the settings without secrets. npm's file is filtered line by line; any other is copied whole or not at
    all. None also for a file that sets a proxy, if commands must use the sandbox's (`goes_by_proxy`)."""
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
    """Remove user names and passwords from an address, or from a list of them."""
    return _LOGIN.sub("", address)


def _may_hold_secret(text: str) -> bool:
    found = _MAY_BE_SECRET.search(text) or SECRET_VALUE.search(text) or _LOGIN.search(text) or _RANDOM.search(text)
    return bool(found or secrets_in(text, {}))
