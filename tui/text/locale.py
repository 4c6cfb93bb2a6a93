"""Tells from the locale whether the terminal supports UTF-8."""

from collections.abc import Mapping

_C_LOCALES = ("C", "POSIX")
_SET_BY_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")


def is_ascii_locale(environment: Mapping[str, str]) -> bool:
    """Whether the locale is not UTF-8. If none is set, UTF-8 is assumed. `LC_CTYPE=C.UTF-8` is ignored, because Python
    sets it itself when `LANG` is `C`."""
    variables = {name: value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))}
    if variables.get("LANG") in _C_LOCALES and variables.get("LC_CTYPE") in _SET_BY_PYTHON:
        del variables["LC_CTYPE"]
    encoding_locale = next(iter(variables.values()), "")
    return bool(encoding_locale) and "utf" not in encoding_locale.lower()
