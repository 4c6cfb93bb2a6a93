"""What the locale says about the terminal. Pure."""

from collections.abc import Mapping

_NO_LANGUAGE = ("C", "POSIX")
_PUT_BY_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")


def draws_letters_only(environment: Mapping[str, str]) -> bool:
    """Whether the locale is not UTF-8. Without any information the terminal is assumed to be modern.
    `LC_CTYPE=C.UTF-8` does not count, because Python itself sets it if `LANG` is `C`."""
    said = {name: value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))}
    if said.get("LANG") in _NO_LANGUAGE and said.get("LC_CTYPE") in _PUT_BY_PYTHON:
        del said["LC_CTYPE"]
    first = next(iter(said.values()), "")
    return bool(first) and "utf" not in first.lower()
