"""Environment variables that are not on the allow-list: those that direnv has set for this folder, and those that are
withheld. No I/O."""

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache

from ebbtide.tools.lazy import regex
from ebbtide.tools.secrets.key_formats import SECRET_VARIABLE_NAME
from ebbtide.tools.secrets.redaction import SECRET_VALUE
from ebbtide.tools.secrets.secret_fragments import looks_random

_DIRENV_VARIABLE = "DIRENV_DIFF"
_MAX_UNPACKED_BYTES = 1 << 20
_UNSAFE_NAMES = regex(
    r"(?:BASH|ZSH|LD_|DYLD_|GCONV_PATH|LOCPATH|GLIBC_|GIT_|SSH_|EBB_|DIRENV_|DBUS_|DOCKER_|SUDO_|PROMPT_COMMAND|PS[0-4]\Z"
    r"|ENV\Z|IFS\Z|SHELLOPTS|CDPATH|LESS|PYTHONSTARTUP|PERL5|NODE_OPTIONS|RUBYOPT|JAVA_TOOL_OPTIONS).*"
)
"""Matches variables that affect how shells and interpreters start, or that point to other programs."""
_MAX_VALUE_CHARS = 4_096
_MIN_RANDOM_CHARS = 16
_MAX_NAMED_VARIABLES = 4
_WORD_BREAKS = regex(r"[\s:;,=/@?&.]+")
_RANDOM_RUN = regex(r"(?=.*\d)[0-9a-f]{16,}|(?=.*\d)[0-9a-z]{24,}")
_SHELL_OR_OWN_NAMES = regex(r"_|OLDPWD|SHLVL|EBB_.*|DIRENV_.*")
"""Matches variables that shells or this program set."""


def direnv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that direnv set, unless their names or values look like secrets."""
    direnv_names = _direnv_names(environment.get(_DIRENV_VARIABLE, ""))
    return {
        name: environment[name]
        for name in direnv_names
        if name in environment and _is_safe_variable(name, environment[name])
    }


def withheld_variables(environment: Mapping[str, str], visible_variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables that commands do not get."""
    return tuple(
        name for name in environment if name not in visible_variables and not _SHELL_OR_OWN_NAMES.fullmatch(name)
    )


def withheld_direnv_variables(environment: Mapping[str, str], visible_variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of withheld variables that direnv set."""
    direnv_names = _direnv_names(environment.get(_DIRENV_VARIABLE, ""))
    return tuple(name for name in withheld_variables(environment, visible_variables) if name in direnv_names)


def withheld_variables_note(command: str, output_tail: str, withheld: tuple[str, ...]) -> str:
    """Build a note if the command uses a withheld variable, or if the output of a failed command mentions one. Empty
    otherwise. `output_tail`: the end of a failed command's output."""
    names = [name for name in withheld if _is_used_in(name, command) or ("_" in name and _occurs_in(name, output_tail))]
    if not names:
        return ""
    listed_names = names[:_MAX_NAMED_VARIABLES]
    names_text = ", ".join(f"`{name}`" for name in listed_names)
    setting = f"EBB_PASS_ENV='{' '.join(listed_names)}'"
    if len(listed_names) == 1:
        return (
            f"{names_text} is set in the user's environment but not for commands: the user can pass it with `{setting}`"
        )
    return (
        f"{names_text} are set in the user's environment but not for commands: the user can pass them with `{setting}`"
    )


def _is_used_in(name: str, command: str) -> bool:
    """Whether a command uses the variable without setting it itself."""
    if not _occurs_in(name, command):
        return False
    name = re.escape(name)
    usage_pattern = (
        rf"\$\{{?{name}\b|(?:environ|getenv|\benv|\bENV)\W{{1,12}}(?:get\W{{1,3}})?{name}\b|\bprintenv[ \t]+{name}\b"
    )
    return bool(re.search(usage_pattern, command)) and not re.search(rf"(?:\A|[\s;&|]){name}=", command)


def _occurs_in(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


@lru_cache(maxsize=4)
def _direnv_names(difference: str) -> frozenset[str]:
    return frozenset(_parse_names(difference))


def _parse_names(difference: str) -> Iterator[str]:
    """Yield the names of variables in direnv's record of its changes. The record is compressed JSON in base64."""
    try:
        compressed = base64.urlsafe_b64decode(difference)
        json_text = zlib.decompressobj().decompress(compressed, _MAX_UNPACKED_BYTES)
        changes = json.loads(json_text)
    except (ValueError, zlib.error):
        return
    new_values = changes.get("n") if isinstance(changes, dict) else None
    yield from (name for name in (new_values if isinstance(new_values, dict) else ()) if isinstance(name, str))


def _is_safe_variable(name: str, value: str) -> bool:
    if (
        _UNSAFE_NAMES.fullmatch(name)
        or SECRET_VARIABLE_NAME.search(name)
        or SECRET_VALUE.search(value)
        or len(value) > _MAX_VALUE_CHARS
    ):
        return False
    return not any(len(word) >= _MIN_RANDOM_CHARS and _is_random(word) for word in _WORD_BREAKS.split(value))


def _is_random(word: str) -> bool:
    """Whether a word looks random: it mixes case and digits, or has a long run of hexadecimal digits."""
    return looks_random(word) or _RANDOM_RUN.fullmatch(word) is not None
