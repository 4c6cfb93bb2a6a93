"""What the locale says of the terminal. Pure."""

from collections.abc import Mapping

_NO_LANGUAGE = ("C", "POSIX")
_PUT_BY_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")


def draws_letters_only(environment: Mapping[str, str]) -> bool:
    """Whether the locale says so. Where nothing is said, the terminal is one of today. Python itself sets `LC_CTYPE` to
    `C.UTF-8` where `LANG` is `C`: that says nothing of the terminal."""
    said = {name: value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))}
    if said.get("LANG") in _NO_LANGUAGE and said.get("LC_CTYPE") in _PUT_BY_PYTHON:
        del said["LC_CTYPE"]
    first = next(iter(said.values()), "")
    return bool(first) and "utf" not in first.lower()
