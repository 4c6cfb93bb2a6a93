"""Environment variables outside the allow-list: those that direnv set for this folder, and those that are withheld.
Pure."""

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache

from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.key_formats import SECRET_NAME
from ebbtide.tools.secrets.redaction import SECRET_VALUE
from ebbtide.tools.secrets.secret_pieces import is_mixed

_DIRENV = "DIRENV_DIFF"
_MAX_BYTES = 1 << 20
_NEVER = regex(
    r"(?:BASH|ZSH|LD_|DYLD_|GCONV_PATH|LOCPATH|GLIBC_|GIT_|SSH_|EBB_|DIRENV_|DBUS_|DOCKER_|SUDO_|PROMPT_COMMAND|PS[0-4]\Z"
    r"|ENV\Z|IFS\Z|SHELLOPTS|CDPATH|LESS|PYTHONSTARTUP|PERL5|NODE_OPTIONS|RUBYOPT|JAVA_TOOL_OPTIONS).*"
)
"""Variables that affect how shells and interpreters start, or lead to other programs."""
_MAX_VALUE_CHARS = 4_096
_LONG_WORD = 16
_MAX_NAMED_VARIABLES = 4
_WORD_BREAKS = regex(r"[\s:;,=/@?&.]+")
_LONG_ROW = regex(r"(?=.*\d)[0-9a-f]{16,}|(?=.*\d)[0-9a-z]{24,}")
_OWN = regex(r"_|OLDPWD|SHLVL|EBB_.*|DIRENV_.*")
"""Variables set by shells and by this program."""


def direnv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables set by direnv whose names and values do not look like secrets."""
    named = _set_by_direnv(environment.get(_DIRENV, ""))
    return {name: environment[name] for name in named if name in environment and _is_plain(name, environment[name])}


def withheld_variables(environment: Mapping[str, str], passed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables that commands do not get."""
    return tuple(name for name in environment if name not in passed and not _OWN.fullmatch(name))


def withheld_direnv_variables(environment: Mapping[str, str], passed: Mapping[str, str]) -> tuple[str, ...]:
    """Return those of them that direnv set."""
    named = _set_by_direnv(environment.get(_DIRENV, ""))
    return tuple(name for name in withheld_variables(environment, passed) if name in named)


def note_on_withheld(command: str, printed: str, withheld: tuple[str, ...]) -> str:
    """Return a note if the command uses a withheld variable, or, after a failure, its output mentions one; otherwise an
    empty string. `printed`: the end of the output of a failed command."""
    names = [name for name in withheld if _is_named(name, command) or ("_" in name and _stands_in(name, printed))]
    if not names:
        return ""
    named = names[:_MAX_NAMED_VARIABLES]
    listed, wanted = ", ".join(f"`{name}`" for name in named), f"EBB_PASS_ENV='{' '.join(named)}'"
    if len(named) == 1:
        return f"{listed} is set in the user's environment but not for commands: the user can pass it with `{wanted}`"
    return f"{listed} are set in the user's environment but not for commands: the user can pass them with `{wanted}`"


def _is_named(name: str, command: str) -> bool:
    """Whether a command uses a variable that it does not set itself."""
    if not _stands_in(name, command):
        return False
    name = re.escape(name)
    uses = rf"\$\{{?{name}\b|(?:environ|getenv|\benv|\bENV)\W{{1,12}}(?:get\W{{1,3}})?{name}\b|\bprintenv[ \t]+{name}\b"
    return bool(re.search(uses, command)) and not re.search(rf"(?:\A|[\s;&|]){name}=", command)


def _stands_in(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


@lru_cache(maxsize=4)
def _set_by_direnv(difference: str) -> frozenset[str]:
    return frozenset(_names_in(difference))


def _names_in(difference: str) -> Iterator[str]:
    """Yield the variable names in direnv's record of its changes: compressed JSON in base64."""
    try:
        packed = base64.urlsafe_b64decode(difference)
        unpacked = zlib.decompressobj().decompress(packed, _MAX_BYTES)
        found = json.loads(unpacked)
    except (ValueError, zlib.error):
        return
    after = found.get("n") if isinstance(found, dict) else None
    yield from (name for name in (after if isinstance(after, dict) else ()) if isinstance(name, str))


def _is_plain(name: str, value: str) -> bool:
    if (
        _NEVER.fullmatch(name)
        or SECRET_NAME.search(name)
        or SECRET_VALUE.search(value)
        or len(value) > _MAX_VALUE_CHARS
    ):
        return False
    return not any(len(word) >= _LONG_WORD and _is_random(word) for word in _WORD_BREAKS.split(value))


def _is_random(word: str) -> bool:
    """Whether a word looks random: upper and lower case with digits, or a long run of hexadecimal digits."""
    return is_mixed(word) or _LONG_ROW.fullmatch(word) is not None
