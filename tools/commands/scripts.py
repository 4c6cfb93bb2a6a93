"""Recognises the simplest read-only calls to programs whose arguments are a language of their own: find, sed, awk and
tar.

Other calls are only tried in a read-only sandbox (`ebbtide.tools.commands.looks`).
"""

import re
from collections.abc import Sequence
from dataclasses import field

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.programs import FIND_FILE_TESTS, FIND_FLAGS, FIND_TEXT_TESTS
from ebbtide.tools.lazy import dataclass, regex

MAX_SCRIPT_CHARS = 1_000
"""Maximum number of characters in a script. Longer ones are treated as unsafe."""
_ADDRESS = r"(?:\d+|\$|/[\w .,:=\"'<>^$-]+/)"
_SED_SUBSTITUTION = r"s/[^/\\\n\[]+/[^/\\\n]*/g?"
_SED_PRINTS = regex(rf"(?:(?:{_ADDRESS}(?:,{_ADDRESS})?)?[pd=q] ?;? ?)+|{_SED_SUBSTITUTION}")
"""Matches a sed script that only selects lines, such as `1,80p`, or only replaces a word."""
_SED_SCRIPT = regex(r"(?:-[nErszu]*e|--expression(?:=|\Z))(?P<script>.*)", re.DOTALL)
_SED_LETTERS = set("nErszu")
_SED_LONG_OPTIONS = {"--quiet", "--silent", "--regexp-extended", "--null-data", "--separate", "--unbuffered", "--posix"}
_AWK_PRINTS = regex(r"(?:/[\w .,:=-]+/ ?|NR ?[=<>]=? ?\d+ ?)?\{ ?print(?: (?:\$(?:\d+|NF)(?:, ?)?)+)? ?\}")
"""Matches an awk program that only prints fields, such as `{print $1, $3}`."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A word that names a file, or might do so."""

    text: str
    index: int
    """Index of the word in the command."""
    is_glob: bool = False


@dataclass(slots=True)
class Proof:
    """What is known about one call."""

    name: str
    """The program's name; for git, with the subcommand."""
    is_read_only_program: bool = True
    unproved_indices: list[int] = field(default_factory=list)
    """Indices of words whose effect is unknown."""
    files: list[Operand] = field(default_factory=list)
    needs_input: bool = False
    """Whether the program would read from the terminal because it has no other input."""

    @property
    def last_unproved_index(self) -> int | None:
        """The last of `unproved_indices`; None if there are none."""
        return max(self.unproved_indices, default=None)

    @property
    def shows_only_names(self) -> bool:
        """Whether the call shows no file contents."""
        return self.name in (
            "ls",
            "stat",
            "du",
            "find",
            "fd",
            "tree",
            "realpath",
            "readlink",
            "echo",
            "printf",
        )

    @property
    def shows_unnamed_files(self) -> bool:
        """Whether the call shows lines from files that it does not name."""
        return self.name in ("rg", "grep", "egrep", "fgrep") or self.name.startswith("git ")


def may_be_option(word: Word) -> bool:
    """Whether the word may expand to a file name that looks like an option, or like a different option."""
    return word.is_glob and (word.text[0] in "*?[" or (word.text[0] == "-" and not re.match(r"--[\w-]+=", word.text)))


def check_find(words: Sequence[Word], proof: Proof) -> None:
    """Check find. Its paths come first, then the expression. An unknown word in the expression might run programs,
    write or delete."""
    index, is_before_expression = 1, True
    while index < len(words):
        text = words[index].text
        if words[index].is_glob and text[:1] in "*?[-(!,":
            proof.unproved_indices.append(index)
        elif is_before_expression and text[:1] not in "-(!,":
            proof.files.append(Operand(text, index, words[index].is_glob))
        elif text in FIND_FLAGS:
            is_before_expression = text in ("-H", "-P")
        elif text in FIND_TEXT_TESTS or text in FIND_FILE_TESTS:
            is_before_expression = False
            index += 1
            if index >= len(words) or (
                words[index].is_glob and not (text in FIND_TEXT_TESTS and _cannot_be_test(words[index].text))
            ):
                proof.unproved_indices.append(min(index, len(words) - 1))
            elif text in FIND_FILE_TESTS:
                proof.files.append(Operand(words[index].text, index))
        else:
            proof.unproved_indices.append(index)
        index += 1


def _cannot_be_test(pattern: str) -> bool:
    """Whether `find` never reads a file name that matches the pattern as part of its expression. The worst outcome is
    then an error from `find`."""
    return pattern[:1].isalnum() or "." in re.sub(r"\[[^]]*\]?", "", pattern)


def check_sed(words: Sequence[Word], proof: Proof) -> None:
    """Check sed. Only scripts that select lines or replace a word are accepted."""
    scripts = dict[int, str]()
    operand_indices = list[int]()
    index = 1
    is_after_dashes = False
    while index < len(words):
        text = words[index].text
        script_option = _SED_SCRIPT.fullmatch(text)
        if may_be_option(words[index]):
            proof.unproved_indices.append(index)
        elif is_after_dashes:
            operand_indices.append(index)
        elif text == "--":
            is_after_dashes = True
        elif script_option is not None and not script_option["script"]:
            index += 1
            scripts[min(index, len(words) - 1)] = words[index].text if index < len(words) else "?"
        elif script_option is not None:
            scripts[index] = script_option["script"]
        elif text[:1] != "-" or text == "-":
            operand_indices.append(index)
        elif text not in _SED_LONG_OPTIONS and not (len(text) > 1 and set(text[1:]) <= _SED_LETTERS):
            proof.unproved_indices.append(index)
        index += 1
    if not scripts:
        scripts, operand_indices = {index: words[index].text for index in operand_indices[:1]}, operand_indices[1:]
    proof.unproved_indices += [
        index for index, script in scripts.items() if words[index].is_glob or not _is_simple(_SED_PRINTS, script)
    ]
    if not scripts:
        proof.unproved_indices.append(0)
    proof.files += [
        Operand(words[index].text, index, words[index].is_glob) for index in operand_indices if words[index].text != "-"
    ]


def _is_simple(pattern: re.Pattern[str], script: str) -> bool:
    return len(script) <= MAX_SCRIPT_CHARS and pattern.fullmatch(script) is not None


def check_awk(words: Sequence[Word], proof: Proof) -> None:
    index = 1
    while index < len(words) and words[index].text[:1] == "-" and words[index].text != "--":
        text = words[index].text
        if text in ("-F", "-v"):
            index += 1
            if index < len(words) and words[index].is_glob:
                proof.unproved_indices.append(index)  # the second of several names would be run as the program
        elif not (text.startswith(("-F", "-v")) and text[2:]):
            proof.unproved_indices.append(index)
        index += 1
    index += index < len(words) and words[index].text == "--"
    if index >= len(words) or words[index].is_glob or not _is_simple(_AWK_PRINTS, words[index].text):
        proof.unproved_indices.append(min(index, len(words) - 1))
    for operand_index in range(index + 1, len(words)):
        word = words[operand_index]
        if may_be_option(word) or word.text.startswith("/inet"):  # a network connection, not a file
            proof.unproved_indices.append(operand_index)
        elif not re.match(r"[A-Za-z_]\w*=", word.text):
            proof.files.append(Operand(word.text, operand_index, word.is_glob))


def check_tar(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check tar. Its first word contains options even without a dash, and a name with a colon refers to another
    machine."""
    first = words[1] if len(words) > 1 else Word("")
    if first.text[:1] != "-" and not set(first.text) <= set("cxtvzjJkpmf"):
        proof.unproved_indices.append(1)
    proof.unproved_indices += [index for index in range(1, len(words)) if ":" in words[index].text]
    archive_index = 2 if first.text[:1] != "-" and "f" in first.text and len(words) > 2 else 0
    if archive_index and words[archive_index].is_glob:
        proof.unproved_indices.append(archive_index)  # the first of several names would be written to
    creates_archive = writes_archive(words)
    proof.files += [
        Operand(words[index].text, index, words[index].is_glob)
        for index in range(1 + bool(archive_index), len(words))
        if index == archive_index or (creates_archive and words[index] in operands)
    ]
    proof.files[:] = [file for file in proof.files if file.text != "-"]


def writes_archive(words: Sequence[Word]) -> bool:
    """Whether tar creates an archive, as opposed to extracting or listing one."""
    first = words[1].text if len(words) > 1 else ""
    is_undashed_create = first[:1] != "-" and "c" in first
    return is_undashed_create or any(re.fullmatch("-[A-Za-z]*c[A-Za-z]*|--create", word.text) for word in words[1:])
