"""Checks a call against the table of read-only programs, and collects the files that it names."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.nested import program_name
from ebbtide.tools.commands.programs import (
    GIT_DANGEROUS_OPTIONS,
    GIT_KNOWN_COMMANDS,
    GIT_PROGRAM_RUNNERS,
    READ_ONLY_ROWS,
    RULE_APPROVED_ROWS,
    split_words,
)
from ebbtide.tools.commands.scripts import Operand, Proof, check_awk, check_find, check_sed, check_tar, may_be_option
from ebbtide.tools.lazy import dataclass, regex

PROGRAM_ALIASES: Mapping[str, str] = {
    "fdfind": "fd", "gfind": "find", "gsort": "sort", "gtar": "tar", "bsdtar": "tar", "ripgrep": "rg", "gsed": "sed",
    "gawk": "awk", "mawk": "awk", "nawk": "awk",
}  # fmt: skip
_NUMBER_VALUE, _LINE_COUNT = regex(r"[+-]?\d{1,9}[kKMG]?"), regex(r"-\d{1,9}")
_ASKS_FOR_SIGNATURE = regex(r"%[+ -]?G|%\(\*?sig")
"""Matches formats that show signatures. For these, git runs a verification program."""
_LISTS_ARCHIVE = regex("-?t[vzjJ]*f")
_REVISION = regex(r"@(\{(u|upstream|push|\d{1,6})\})?(\.{2,3}[\w./-]*)?")
"""Matches revisions that start with `@` and can refer to at most two commits."""
_LISTING_OPTIONS = ("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_PATTERN_PROGRAMS = {"grep", "egrep", "fgrep", "rg", "git grep"}
_PS_DASHED, _PS_AMBIGUOUS_LETTERS = regex(r"-[A-Za-z]\S*"), regex("[xu]")
_PS_LETTERS = set("acfghjlnSTuvwxX")
_SECRET_SETTING = regex("(?i)header|pass|token|secret|credential|insteadof|proxy|cookie")
_OVERRIDDEN_GIT_SETTINGS = split_words(
    "core.fsmonitor core.hookspath core.untrackedcache core.pager diff.external diff.submodule diff.ignoresubmodules "
    "diff.autorefreshindex status.submodulesummary submodule.recurse log.showsignature gpg.program gpg.x509.program "
    "gpg.ssh.program safe.barerepository protocol.ext.allow"
)
"""Settings that guarded git calls override. Reading them would show values that are not in effect."""
_JQ_UNSAFE_BUILTIN = regex(
    r"(?<![.\w\"$])(?:env|ENV|import|include|input_filename|get_search_list|modulemeta)(?![\w\"])|\$(?:ENV|__prog)"
)
"""Matches jq builtins that access more than the input. Fields with the same names are harmless."""
_TEST_WORDS = split_words("-f -e -d -n -z -t -s -r -w -x -L -h -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ! = == != ( )")
_RG_HIDDEN = regex(r"-[A-Za-z0-9]*[u.][A-Za-z0-9.]*|--hidden|--no-ignore|--unrestricted")
GLOB_SAFE_PROGRAMS = {"ls", "cat", "head", "nl", "stat", "echo", "printf"}
"""Programs that are read-only whatever names a pattern expands to."""
_NO_ATTACHED_VALUES = {"tree"}
"""Programs in which an option letter followed by more letters still takes the next word as its value, as in `tree -Po
PATTERN FILE`."""
_RESPONSE_FILE_PROGRAMS = split_words("nm objdump readelf strings")
"""Programs that read arguments from a file if a word begins with `@`."""
_PRINTF_COUNT = regex(r"%[^%a-zA-Z]*[hljztL]*n")


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """A parsed row of the table."""

    letter_options: frozenset[str] = frozenset()
    value_options: Mapping[str, str] = field(default_factory=dict)
    """Letters and long names that take a value, each with the kind of value (see `programs`)."""
    long_options: frozenset[str] = frozenset()
    exact_words: frozenset[str] = frozenset()
    allows_line_count: bool = False
    operands: str = ""
    is_read_only: bool = True


def check_read_only(words: Sequence[Word], *, has_input: bool = False) -> Proof | None:
    """Check a call against the table. None if the program is not in it."""
    if not words or not words[0].is_plain:
        return None
    name, start = program_name([words[0].text]), 1
    name = PROGRAM_ALIASES.get(name, name)
    if name == "git":
        name, start = _git_command(words)
    check_program = {"find": check_find, "sed": check_sed, "awk": check_awk}.get(name)
    row = parse_row(name)
    if check_program is None and row is None and not name.startswith("git"):
        return None
    lists_archive = name == "tar" and len(words) > 2 and bool(_LISTS_ARCHIVE.fullmatch(words[1].text))
    proof = Proof(
        name, is_read_only_program=check_program is not None or lists_archive or (row is not None and row.is_read_only)
    )
    if name in _RESPONSE_FILE_PROGRAMS:
        proof.unproved_indices += [index for index, word in enumerate(words) if word.text[:1] == "@" or word.is_glob]
    command_index = 2 if len(words) > 1 and words[1].text == "--no-pager" else 1
    proof.unproved_indices += [index for index in range(command_index, start) if words[index].text[:1] == "-"]
    if check_program is not None:
        check_program(words, proof)
    elif row is not None:
        _check_by_row(words, start, row, proof, has_input=has_input)
    else:
        _check_unlisted_git_command(words, start, proof)
    return proof


@cache
def parse_row(name: str) -> ProgramRow | None:
    text = READ_ONLY_ROWS.get(name) or RULE_APPROVED_ROWS.get(name)
    if text is None:
        return None
    options, _, operands = text.partition("|")
    letter_options = set[str]()
    long_options = set[str]()
    exact_words = set[str]()
    value_options = dict[str, str]()
    allows_line_count = False
    for option in options.split():
        flag, colon, kind = option.partition(":")
        if option == "-#":
            allows_line_count = True
        elif colon:
            value_options[flag] = kind
        elif flag[:2] == "--":
            long_options.add(flag)
        elif len(flag) == 4 and name == "git status":
            exact_words.add(flag)
        else:
            letter_options |= set(flag[1:])
    return ProgramRow(
        frozenset(letter_options),
        value_options,
        frozenset(long_options),
        frozenset(exact_words),
        allows_line_count,
        operands.strip(),
        name in READ_ONLY_ROWS,
    )


def _git_command(words: Sequence[Word]) -> tuple[str, int]:
    """Return the git subcommand and the index where its arguments begin."""
    index = 1
    while index < len(words) and words[index].text[:1] == "-":
        index += 2 if words[index].text in ("-c", "-C", "--git-dir", "--work-tree", "--exec-path", "--namespace") else 1
    if index >= len(words):
        return "git", len(words)
    two_words = " ".join(("git", *(word.text for word in words[index : index + 2])))
    if any(" " in word.text for word in words[index : index + 2]):
        two_words = ""  # a word that contains a space is not two words
    return (
        (two_words, index + 2)
        if two_words.count(" ") == 2 and two_words in READ_ONLY_ROWS
        else (f"git {words[index].text.replace(' ', '?')}", index + 1)
    )


def _check_unlisted_git_command(words: Sequence[Word], start: int, proof: Proof) -> None:
    """For a git command that is in no table, check only whether it might run other programs."""
    subcommand = proof.name.removeprefix("git ")
    if subcommand in GIT_PROGRAM_RUNNERS or subcommand not in GIT_KNOWN_COMMANDS | {"git"}:
        proof.unproved_indices.append(min(start, len(words)) - 1)
    for index in range(start, len(words)):
        name = words[index].text.partition("=")[0]
        is_abbreviation = (
            name[:2] == "--" and len(name) > 2 and any(option.startswith(name) for option in GIT_DANGEROUS_OPTIONS)
        )
        if is_abbreviation or words[index].text.startswith(GIT_DANGEROUS_OPTIONS) or may_be_option(words[index]):
            proof.unproved_indices.append(index)


def _check_by_row(words: Sequence[Word], start: int, row: ProgramRow, proof: Proof, *, has_input: bool) -> None:
    """Process the options, then check the operands."""
    operand_indices = list[int]()
    has_pattern = False
    index = start
    is_after_dashes = False
    while index < len(words):
        word = words[index]
        text = word.text
        if not is_after_dashes and may_be_option(word) and not (proof.name in GLOB_SAFE_PROGRAMS and text[0] != "-"):
            proof.unproved_indices.append(index)
        elif (
            is_after_dashes
            or text[:1] != "-"
            or text == "-"
            or (row.operands == "text*" and proof.name in ("echo", "test"))
        ):
            operand_indices.append(index)
        elif text == "--":
            is_after_dashes = True
        elif text in row.exact_words or (row.allows_line_count and _LINE_COUNT.fullmatch(text)):
            pass
        else:
            value_count, is_pattern = _check_option(words, index, row, proof)
            has_pattern = has_pattern or is_pattern
            index += value_count
        index += 1
    _check_operands(words, operand_indices, row, proof, has_pattern=has_pattern, has_input=has_input)


def _check_option(words: Sequence[Word], index: int, row: ProgramRow, proof: Proof) -> tuple[int, bool]:
    """Check an option. Return how many of the following words are its value, and whether that value is the search
    pattern."""
    text = words[index].text
    if text[:2] == "--":
        name, has_value, value = text.partition("=")
        kind = row.value_options.get(name)
        if kind is None or kind == "e!":
            if has_value or (kind is None and name not in row.long_options):
                proof.unproved_indices.append(index)
            return 0, kind == "e!"
        if has_value:
            _check_value(kind, value, index, proof)
            return 0, kind == "e"
        if kind == "o":
            return 0, False
        return _check_next_word(words, index, kind, proof)
    for value_start, letter in enumerate(text[1:], 2):
        kind = row.value_options.get(f"-{letter}")
        if kind is None and letter in row.letter_options:
            continue
        if kind is None or (text[value_start:] and proof.name in _NO_ATTACHED_VALUES and kind != "n"):
            proof.unproved_indices.append(index)
            return 0, False
        if text[value_start:] or kind == "o":
            _check_value(kind, text[value_start:], index, proof)
            return 0, kind == "e"
        return _check_next_word(words, index, kind, proof)
    return 0, False


def searches_hidden(words: Sequence[Word]) -> bool:
    """Whether a call searches every file in a folder, including hidden files."""
    name = program_name([words[0].text])
    if name in ("grep", "egrep", "fgrep"):
        return is_recursive(words)
    return PROGRAM_ALIASES.get(name, name) == "rg" and any(_RG_HIDDEN.fullmatch(word.text) for word in words[1:])


def _check_next_word(words: Sequence[Word], index: int, kind: str, proof: Proof) -> tuple[int, bool]:
    if kind == "2":
        values = words[index + 1 : index + 3]
        proof.unproved_indices += [] if len(values) == 2 and not any(word.is_glob for word in values) else [index]
        return len(values), False
    if index + 1 >= len(words) or words[index + 1].is_glob or not _may_be_value(kind, words[index + 1].text, proof):
        proof.unproved_indices.append(min(index + 1, len(words) - 1))
        return 0, kind == "e"
    _check_value(kind, words[index + 1].text, index + 1, proof)
    return 1, kind == "e"


def _may_be_value(kind: str, text: str, proof: Proof) -> bool:
    """Whether the text can safely be taken as the option's value. Text that begins with a dash could itself be an
    option. Exceptions: numbers, and patterns for programs that accept any pattern."""
    is_number = kind == "n" and _NUMBER_VALUE.fullmatch(text) is not None
    is_pattern = kind == "e" and proof.name in _PATTERN_PROGRAMS
    return text[:1] != "-" or is_number or is_pattern


def _check_value(kind: str, value: str, index: int, proof: Proof) -> None:
    if kind == "n" and not _NUMBER_VALUE.fullmatch(value):
        proof.unproved_indices.append(index)
    if kind in ("p", "l"):
        proof.files.append(Operand(value.rpartition(":")[2] if kind == "l" else value, index))
    if kind == "x" or (proof.name.startswith("git") and _ASKS_FOR_SIGNATURE.search(value)):
        proof.unproved_indices.append(index)


def _check_operands(
    words: Sequence[Word],
    operand_indices: list[int],
    row: ProgramRow,
    proof: Proof,
    *,
    has_pattern: bool,
    has_input: bool,
) -> None:
    check_program = _CHECKS.get(proof.name)
    if check_program is not None:
        check_program([words[index] for index in operand_indices], words, proof)
    kind = row.operands
    if kind.startswith("pattern"):
        kind = kind.removeprefix("pattern").strip()
        if not has_pattern:
            proof.unproved_indices += [
                index for index in operand_indices[:1] if words[index].is_glob
            ]  # later names are files
            if not operand_indices and not has_input and proof.name != "fd":
                proof.needs_input = True
            operand_indices = operand_indices[1:]
        needs_no_input = proof.name == "jq" and any(
            re.fullmatch("-[A-Za-z]*n.*|--null-input", word.text) for word in words
        )
        if (not operand_indices and proof.name in ("egrep", "fgrep", "jq") and not needs_no_input) or (
            proof.name == "grep" and not operand_indices and not is_recursive(words)
        ):
            proof.needs_input = not has_input
    if kind == "none":
        proof.unproved_indices += operand_indices
    elif (
        kind == "list"
        and operand_indices
        and not any(word.text.startswith(_LISTING_OPTIONS) for word in _before_dashes(words))
    ):
        proof.unproved_indices += operand_indices  # it would create a branch or tag of that name
    elif kind in ("path+", "path?"):
        proof.needs_input = proof.needs_input or not (operand_indices or has_input)
        if kind == "path?":
            # A second operand would be written to, and so would the second name that a pattern expands to.
            proof.unproved_indices += [
                index for position, index in enumerate(operand_indices) if position or words[index].is_glob
            ]
    if proof.name in ("echo", "printf"):  # these print the names that patterns expand to
        proof.files += [
            Operand(words[index].text, index, is_glob=True) for index in operand_indices if words[index].is_glob
        ]
    if kind[:4] in ("path", "rev*"):
        for index in operand_indices:
            _add_file_operand(words[index], index, kind, proof, has_input=has_input)


def _before_dashes(words: Sequence[Word]) -> Sequence[Word]:
    return words[: next((index for index, word in enumerate(words) if word.text == "--"), len(words))]


def _add_file_operand(word: Word, index: int, kind: str, proof: Proof, *, has_input: bool) -> None:
    text = word.text
    if text == "-":
        proof.needs_input = proof.needs_input or not has_input
    elif not text or (kind == "rev*" and ((text[0] in ":@" and not _REVISION.fullmatch(text)) or "\\" in text)):
        proof.unproved_indices.append(index)  # git may interpret it differently
    else:
        proof.files.append(Operand(text, index, word.is_glob))
        if kind == "rev*":
            _, colon, path = text.partition(":")
            if colon and path:
                proof.files.append(Operand(path, index, word.is_glob))


def is_recursive(words: Sequence[Word]) -> bool:
    return any(re.fullmatch(r"-[A-Za-z]*r[A-Za-z]*|--recursive", word.text) for word in words)


def _check_test(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `test`, which may evaluate the operand of an unknown option or the index in `name[index]`."""
    for index in range(1, len(words)):
        text = words[index].text
        if (
            (text[:1] == "-" and text not in _TEST_WORDS and not _LINE_COUNT.fullmatch(text))
            or "[" in text
            or words[index].is_glob
        ):
            proof.unproved_indices.append(index)


def _check_printf(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    if not operands or operands[0].is_glob or _PRINTF_COUNT.search(operands[0].text):
        proof.unproved_indices.append(len(words) - 1)  # it would set a variable


def _check_date(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    proof.unproved_indices += [
        index for index in range(1, len(words)) if words[index] in operands and words[index].text[:1] != "+"
    ]


def _check_ps(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `ps`. `e` without a dash, or a column named `environ`, shows the environment of every program. With an
    invalid option such as `-x`, ps might ignore all dashes, so that `-e` means `e`."""
    dashed_indices = [index for index in range(1, len(words)) if _PS_DASHED.fullmatch(words[index].text)]
    environment_indices = (
        [index for index in dashed_indices if "e" in words[index].text]
        if any(_PS_AMBIGUOUS_LETTERS.search(words[index].text) for index in dashed_indices)
        else []
    )
    proof.unproved_indices += environment_indices
    proof.unproved_indices += [
        index
        for index in range(1, len(words))
        if (words[index] in operands and not (set(words[index].text) <= _PS_LETTERS or words[index].text.isdecimal()))
        or "environ" in words[index].text.casefold()
    ]


def _check_command(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    if len(words) < 2 or words[1].text not in ("-v", "-V"):
        proof.unproved_indices.append(len(words) - 1)


def _check_git_archive(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git archive`: for formats other than tar and zip, the repository's settings name the programs to run."""
    texts = [word.text for word in words]
    for index, text in enumerate(texts):
        archive_format = text.partition("=")[2] if "=" in text else "".join(texts[index + 1 : index + 2])
        if text.partition("=")[0] == "--format" and archive_format not in ("tar", "zip"):
            proof.unproved_indices.append(index)


def _check_git_config(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git config`. One word reads a setting; two words would write it. Settings that may contain secrets, or
    that guarded git calls override, are not allowed."""
    key = operands[0].text.casefold() if len(operands) == 1 and operands[0].is_plain else ""
    if "." not in key or _SECRET_SETTING.search(key) or key in _OVERRIDDEN_GIT_SETTINGS:
        proof.unproved_indices.append(len(words) - 1)


def _check_git_clean(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git clean`: only a dry run is read-only."""
    if not any(re.fullmatch("-[dxXq]*n[dnxXq]*|--dry-run", word.text) for word in _before_dashes(words)):
        proof.unproved_indices.append(len(words) - 1)


def _check_jq(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    proof.unproved_indices += [
        index
        for index in range(1, len(words))
        if words[index] in operands[:1] and (words[index].is_glob or _JQ_UNSAFE_BUILTIN.search(words[index].text))
    ]


def _check_git_fetch(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git fetch`. A rule covers the configured remotes, but no other addresses and no forced branch updates."""
    proof.unproved_indices += [
        index
        for index in range(1, len(words))
        if words[index] in operands and (":" in words[index].text or words[index].is_glob)
    ]


_CHECKS: Mapping[str, Callable[[Sequence[Word], Sequence[Word], Proof], None]] = {
    "test": _check_test, "printf": _check_printf, "date": _check_date, "ps": _check_ps, "command": _check_command,
    "tar": check_tar, "git archive": _check_git_archive, "jq": _check_jq,
    "git config": _check_git_config, "git clean": _check_git_clean,
    "git fetch": _check_git_fetch, "git ls-remote": _check_git_fetch,
}  # fmt: skip
