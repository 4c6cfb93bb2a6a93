"""Recognises options of a command however they are written: `-rf` as `-fr`, `-r -f` or `--recursive --force`. For deny
rules, which should rather match too much."""

from collections.abc import Mapping, Sequence

from ebbtide.tools.lazy import regex

_NAMES: Mapping[str, str] = {"r": "--recursive", "f": "--force"}
"""Letters that mean the same in nearly every program. All in lower case, so that `-R` is `-r`."""
_LETTERS = {name: letter for letter, name in _NAMES.items()}
_CLUSTER, _GIVEN = regex("-[a-z]{1,3}"), regex("-[a-z]+")
_LONG_BEHIND_ONE_DASH = {"find", "go", "java", "javac", "terraform", "openssl", "ffmpeg", "xargs"}
"""Programs whose options of several letters after one dash are not combined letters."""


def gives_option(program: str, words: Sequence[str], wanted: str) -> bool:
    """Whether one word or several together give the option. All in lower case."""
    if any(word == wanted or word.startswith(f"{wanted}=") for word in words if wanted[:2] == "--" or word == wanted):
        return True
    if wanted[:2] == "--":
        return _has_name(words, wanted) or _has_letter(words, _LETTERS.get(wanted, ""))
    is_cluster = _CLUSTER.fullmatch(wanted) is not None and program not in _LONG_BEHIND_ONE_DASH
    return is_cluster and all(
        _has_letter(words, letter) or _has_name(words, _NAMES.get(letter, "")) for letter in wanted[1:]
    )


def _has_letter(words: Sequence[str], letter: str) -> bool:
    return bool(letter) and any(letter in word and _GIVEN.fullmatch(word) for word in words)


def _has_name(words: Sequence[str], name: str) -> bool:
    """Whether the name or an abbreviation of it is among the words."""
    return bool(name) and any(len(word) > len("--") and word[:2] == "--" and name.startswith(word) for word in words)
