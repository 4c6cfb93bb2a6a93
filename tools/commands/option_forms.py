"""Recognises a command's options in all their forms: `-rf` as `-fr`, `-r -f` or `--recursive --force`. Used for deny
rules, which should match too much rather than too little."""

from collections.abc import Mapping, Sequence

from ebbtide.tools.lazy import regex

_LONG_NAMES: Mapping[str, str] = {"r": "--recursive", "f": "--force"}
"""Long names of the letters that mean the same in nearly every program, in lower case; `-R` counts as `-r`."""
_LETTERS = {name: letter for letter, name in _LONG_NAMES.items()}
_CLUSTER, _LETTER_GROUP = regex("-[a-z]{1,3}"), regex("-[a-z]+")
_SINGLE_DASH_LONG_OPTIONS = {"find", "go", "java", "javac", "terraform", "openssl", "ffmpeg", "xargs"}
"""Programs in which several letters after one dash are one option, not combined letters."""


def has_option(program: str, words: Sequence[str], option: str) -> bool:
    """Whether the words contain the option, in one word or spread over several. All arguments must be in lower case."""
    if any(word == option or word.startswith(f"{option}=") for word in words if option[:2] == "--" or word == option):
        return True
    if option[:2] == "--":
        return _has_name(words, option) or _has_letter(words, _LETTERS.get(option, ""))
    is_cluster = _CLUSTER.fullmatch(option) is not None and program not in _SINGLE_DASH_LONG_OPTIONS
    return is_cluster and all(
        _has_letter(words, letter) or _has_name(words, _LONG_NAMES.get(letter, "")) for letter in option[1:]
    )


def _has_letter(words: Sequence[str], letter: str) -> bool:
    return bool(letter) and any(letter in word and _LETTER_GROUP.fullmatch(word) for word in words)


def _has_name(words: Sequence[str], name: str) -> bool:
    """Whether the long name or an abbreviation of it is among the words."""
    return bool(name) and any(len(word) > len("--") and word[:2] == "--" and name.startswith(word) for word in words)
