"""Proves that a call of a program is read-only by the table of such programs, and collects the files that the call
names. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.nested import program_name
from ebbtide.tools.commands.programs import (
    COVERED_OPTION_ROWS,
    GIT_DANGEROUS_OPTIONS,
    GIT_KNOWN_COMMANDS,
    GIT_PROGRAM_RUNNERS,
    READ_ONLY_ROWS,
    word_set,
)
from ebbtide.tools.commands.scripts import Operand, Proof, check_awk, check_find, check_sed, check_tar, may_be_option
from ebbtide.tools.lazy import dataclass, regex

PROGRAM_ALIASES: Mapping[str, str] = {
    "fdfind": "fd", "gfind": "find", "gsort": "sort", "gtar": "tar", "bsdtar": "tar", "ripgrep": "rg", "gsed": "sed",
    "gawk": "awk", "mawk": "awk", "nawk": "awk",
}  # fmt: skip
_NUMBER_VALUE, _LINE_COUNT = regex(r"[+-]?\d{1,9}[kKMG]?"), regex(r"-\d{1,9}")
_ASKS_FOR_SIGNATURE = regex(r"%[+ -]?G|%\(\*?sig")
"""Formats that show signatures, for which git runs the program that verifies them."""
_LISTS_ARCHIVE = regex("-?t[vzjJ]*f")
_REVISION = regex(r"@(\{(u|upstream|push|\d{1,6})\})?(\.{2,3}[\w./-]*)?")
"""Revisions that start with `@` and can only mean one or two commits."""
_LISTING_OPTIONS = ("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_PATTERN_PROGRAMS = {"grep", "egrep", "fgrep", "rg", "git grep"}
_PS_DASHED, _PS_ODD = regex(r"-[A-Za-z]\S*"), regex("[xu]")
_PS_LETTERS = set("acfghjlnSTuvwxX")
_SECRET_SETTING = regex("(?i)header|pass|token|secret|credential|insteadof|proxy|cookie")
_GUARDED_SETTINGS = word_set(
    "core.fsmonitor core.hookspath core.untrackedcache core.pager diff.external diff.submodule diff.ignoresubmodules "
    "diff.autorefreshindex status.submodulesummary submodule.recurse log.showsignature gpg.program gpg.x509.program "
    "gpg.ssh.program safe.barerepository protocol.ext.allow"
)
"""Settings whose values differ in the guarded git calls of read-only commands."""
_JQ_UNSAFE_BUILTIN = regex(
    r"(?<![.\w\"$])(?:env|ENV|import|include|input_filename|get_search_list|modulemeta)(?![\w\"])|\$(?:ENV|__prog)"
)
"""Builtins of jq that access more than the input. Fields with the same names are harmless."""
_TEST_WORDS = word_set("-f -e -d -n -z -t -s -r -w -x -L -h -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ! = == != ( )")
_RG_HIDDEN = regex(r"-[A-Za-z0-9]*[u.][A-Za-z0-9.]*|--hidden|--no-ignore|--unrestricted")
SAFE_WITH_ANY_NAME = {"ls", "cat", "head", "nl", "stat", "echo", "printf"}
"""Programs that are read-only regardless of the names that a pattern expands to."""
_NO_ATTACHED_VALUES = {"tree"}
"""Programs whose letter options take the next word as their value even if more letters follow: `tree -Po PATTERN
FILE`."""
_RESPONSE_FILE_PROGRAMS = word_set("nm objdump readelf strings")
"""Programs that read arguments from a file if a word begins with `@`."""
_PRINTF_COUNT = regex(r"%[^%a-zA-Z]*[hljztL]*n")


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """A parsed row of the table."""

    letter_options: frozenset[str] = frozenset()
    value_options: Mapping[str, str] = field(default_factory=dict)
    """Letters and long names that take a value, each with the kind of value."""
    long_options: frozenset[str] = frozenset()
    exact_words: frozenset[str] = frozenset()
    allows_line_count: bool = False
    operands: str = ""
    is_read_only: bool = True


def check_read_only(words: Sequence[Word], *, has_input: bool = False) -> Proof | None:
    """Return the proof for a call; None if the program is in no table."""
    if not words or not words[0].is_plain:
        return None
    name, start = program_name([words[0].text]), 1
    name = PROGRAM_ALIASES.get(name, name)
    if name == "git":
        name, start = _git_command(words)
    special = {"find": check_find, "sed": check_sed, "awk": check_awk}.get(name)
    row = parsed_row(name)
    if special is None and row is None and not name.startswith("git"):
        return None
    lists_archive = name == "tar" and len(words) > 2 and bool(_LISTS_ARCHIVE.fullmatch(words[1].text))
    proof = Proof(
        name, is_read_only_program=special is not None or lists_archive or (row is not None and row.is_read_only)
    )
    if name in _RESPONSE_FILE_PROGRAMS:
        proof.unproved_indices += [at for at, word in enumerate(words) if word.text[:1] == "@" or word.is_glob]
    pagers = 2 if len(words) > 1 and words[1].text == "--no-pager" else 1
    proof.unproved_indices += [at for at in range(pagers, start) if words[at].text[:1] == "-"]
    if special is not None:
        special(words, proof)
    elif row is not None:
        _check_by_row(words, start, row, proof, has_input=has_input)
    else:
        _check_changing_git(words, start, proof)
    return proof


@cache
def parsed_row(name: str) -> ProgramRow | None:
    text = READ_ONLY_ROWS.get(name) or COVERED_OPTION_ROWS.get(name)
    if text is None:
        return None
    options, _, operands = text.partition("|")
    letters, names, words, valued, counts = set[str](), set[str](), set[str](), dict[str, str](), False
    for option in options.split():
        flag, colon, kind = option.partition(":")
        if option == "-#":
            counts = True
        elif colon:
            valued[flag] = kind
        elif flag[:2] == "--":
            names.add(flag)
        elif len(flag) == 4 and name == "git status":
            words.add(flag)
        else:
            letters |= set(flag[1:])
    return ProgramRow(
        frozenset(letters), valued, frozenset(names), frozenset(words), counts, operands.strip(), name in READ_ONLY_ROWS
    )


def _git_command(words: Sequence[Word]) -> tuple[str, int]:
    """Return the git subcommand and the index where its arguments begin."""
    at = 1
    while at < len(words) and words[at].text[:1] == "-":
        at += 2 if words[at].text in ("-c", "-C", "--git-dir", "--work-tree", "--exec-path", "--namespace") else 1
    if at >= len(words):
        return "git", len(words)
    two = " ".join(("git", *(word.text for word in words[at : at + 2])))
    if any(" " in word.text for word in words[at : at + 2]):
        two = ""  # a word that contains a blank is not two words
    return (
        (two, at + 2)
        if two.count(" ") == 2 and two in READ_ONLY_ROWS
        else (f"git {words[at].text.replace(' ', '?')}", at + 1)
    )


def _check_changing_git(words: Sequence[Word], start: int, proof: Proof) -> None:
    """Check a git command that makes changes. All that is known about such a command is whether it runs other
    programs."""
    subcommand = proof.name.removeprefix("git ")
    if subcommand in GIT_PROGRAM_RUNNERS or subcommand not in GIT_KNOWN_COMMANDS | {"git"}:
        proof.unproved_indices.append(min(start, len(words)) - 1)
    for at in range(start, len(words)):
        name = words[at].text.partition("=")[0]
        is_begun = name[:2] == "--" and len(name) > 2 and any(one.startswith(name) for one in GIT_DANGEROUS_OPTIONS)
        if is_begun or words[at].text.startswith(GIT_DANGEROUS_OPTIONS) or may_be_option(words[at]):
            proof.unproved_indices.append(at)


def _check_by_row(words: Sequence[Word], start: int, row: ProgramRow, proof: Proof, *, has_input: bool) -> None:
    """Process the options, then check the operands."""
    operands, has_pattern, at, after_dashes = list[int](), False, start, False
    while at < len(words):
        word = words[at]
        text = word.text
        if not after_dashes and may_be_option(word) and not (proof.name in SAFE_WITH_ANY_NAME and text[0] != "-"):
            proof.unproved_indices.append(at)
        elif (
            after_dashes
            or text[:1] != "-"
            or text == "-"
            or (row.operands == "text*" and proof.name in ("echo", "test"))
        ):
            operands.append(at)
        elif text == "--":
            after_dashes = True
        elif text in row.exact_words or (row.allows_line_count and _LINE_COUNT.fullmatch(text)):
            pass
        else:
            word_count, is_pattern = _check_option(words, at, row, proof)
            has_pattern = has_pattern or is_pattern
            at += word_count
        at += 1
    _check_operands(words, operands, row, proof, has_pattern=has_pattern, has_input=has_input)


def _check_option(words: Sequence[Word], at: int, row: ProgramRow, proof: Proof) -> tuple[int, bool]:
    """Process an option. Return how many of the following words are its value, and whether that value is the search
    pattern."""
    text = words[at].text
    if text[:2] == "--":
        name, has_value, value = text.partition("=")
        kind = row.value_options.get(name)
        if kind is None or kind == "e!":
            if has_value or (kind is None and name not in row.long_options):
                proof.unproved_indices.append(at)
            return 0, kind == "e!"
        if has_value:
            _check_value(kind, value, at, proof)
            return 0, kind == "e"
        if kind == "o":
            return 0, False
        return _check_next_word(words, at, kind, proof)
    for index, letter in enumerate(text[1:], 2):
        kind = row.value_options.get(f"-{letter}")
        if kind is None and letter in row.letter_options:
            continue
        if kind is None or (text[index:] and proof.name in _NO_ATTACHED_VALUES and kind != "n"):
            proof.unproved_indices.append(at)
            return 0, False
        if text[index:] or kind == "o":
            _check_value(kind, text[index:], at, proof)
            return 0, kind == "e"
        return _check_next_word(words, at, kind, proof)
    return 0, False


def searches_hidden(words: Sequence[Word]) -> bool:
    """Whether a call shows lines from all files in a folder, including hidden ones."""
    name = program_name([words[0].text])
    if name in ("grep", "egrep", "fgrep"):
        return is_recursive(words)
    return PROGRAM_ALIASES.get(name, name) == "rg" and any(_RG_HIDDEN.fullmatch(word.text) for word in words[1:])


def _check_next_word(words: Sequence[Word], at: int, kind: str, proof: Proof) -> tuple[int, bool]:
    if kind == "2":
        given = words[at + 1 : at + 3]
        proof.unproved_indices += [] if len(given) == 2 and not any(word.is_glob for word in given) else [at]
        return len(given), False
    if at + 1 >= len(words) or words[at + 1].is_glob or not _may_be_value(kind, words[at + 1].text, proof):
        proof.unproved_indices.append(min(at + 1, len(words) - 1))
        return 0, kind == "e"
    _check_value(kind, words[at + 1].text, at + 1, proof)
    return 1, kind == "e"


def _may_be_value(kind: str, text: str, proof: Proof) -> bool:
    """Whether the text can safely be taken for the value. If it begins with a dash it could be an option, unless it is
    a number, or the pattern of a program that takes any pattern literally."""
    is_number = kind == "n" and _NUMBER_VALUE.fullmatch(text) is not None
    is_pattern = kind == "e" and proof.name in _PATTERN_PROGRAMS
    return text[:1] != "-" or is_number or is_pattern


def _check_value(kind: str, value: str, at: int, proof: Proof) -> None:
    if kind == "n" and not _NUMBER_VALUE.fullmatch(value):
        proof.unproved_indices.append(at)
    if kind in ("p", "l"):
        proof.files.append(Operand(value.rpartition(":")[2] if kind == "l" else value, at))
    if kind == "x" or (proof.name.startswith("git") and _ASKS_FOR_SIGNATURE.search(value)):
        proof.unproved_indices.append(at)


def _check_operands(
    words: Sequence[Word], operands: list[int], row: ProgramRow, proof: Proof, *, has_pattern: bool, has_input: bool
) -> None:
    check = _CHECKS.get(proof.name)
    if check is not None:
        check([words[at] for at in operands], words, proof)
    kind = row.operands
    if kind.startswith("pattern"):
        kind = kind.removeprefix("pattern").strip()
        if not has_pattern:
            proof.unproved_indices += [at for at in operands[:1] if words[at].is_glob]  # later names are files
            if not operands and not has_input and proof.name != "fd":
                proof.needs_input = True
            operands = operands[1:]
        asks_nothing = proof.name == "jq" and any(re.fullmatch("-[A-Za-z]*n.*|--null-input", one.text) for one in words)
        if (not operands and proof.name in ("egrep", "fgrep", "jq") and not asks_nothing) or (
            proof.name == "grep" and not operands and not is_recursive(words)
        ):
            proof.needs_input = not has_input
    if kind == "none":
        proof.unproved_indices += operands
    elif (
        kind == "list"
        and operands
        and not any(word.text.startswith(_LISTING_OPTIONS) for word in _before_dashes(words))
    ):
        proof.unproved_indices += operands  # it would create a branch or tag of that name
    elif kind in ("path+", "path?"):
        proof.needs_input = proof.needs_input or not (operands or has_input)
        if kind == "path?":
            # A second operand would be written to, and so would the second of several names that a pattern expands to.
            proof.unproved_indices += [at for place, at in enumerate(operands) if place or words[at].is_glob]
    if proof.name in ("echo", "printf"):  # these print the names that patterns expand to
        proof.files += [Operand(words[at].text, at, is_glob=True) for at in operands if words[at].is_glob]
    if kind[:4] in ("path", "rev*"):
        for at in operands:
            _add_file_operand(words[at], at, kind, proof, has_input=has_input)


def _before_dashes(words: Sequence[Word]) -> Sequence[Word]:
    return words[: next((at for at, word in enumerate(words) if word.text == "--"), len(words))]


def _add_file_operand(word: Word, at: int, kind: str, proof: Proof, *, has_input: bool) -> None:
    text = word.text
    if text == "-":
        proof.needs_input = proof.needs_input or not has_input
    elif not text or (kind == "rev*" and ((text[0] in ":@" and not _REVISION.fullmatch(text)) or "\\" in text)):
        proof.unproved_indices.append(at)  # git may interpret it differently
    else:
        proof.files.append(Operand(text, at, word.is_glob))
        if kind == "rev*":
            _, colon, path = text.partition(":")
            if colon and path:
                proof.files.append(Operand(path, at, word.is_glob))


def is_recursive(words: Sequence[Word]) -> bool:
    return any(re.fullmatch(r"-[A-Za-z]*r[A-Za-z]*|--recursive", word.text) for word in words)


def _check_test(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `test`, which may evaluate the operand of an unknown option and the index in `name[index]`."""
    for at in range(1, len(words)):
        text = words[at].text
        if (
            (text[:1] == "-" and text not in _TEST_WORDS and not _LINE_COUNT.fullmatch(text))
            or "[" in text
            or words[at].is_glob
        ):
            proof.unproved_indices.append(at)


def _check_printf(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    if not operands or operands[0].is_glob or _PRINTF_COUNT.search(operands[0].text):
        proof.unproved_indices.append(len(words) - 1)  # it would set a variable


def _check_date(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    proof.unproved_indices += [at for at in range(1, len(words)) if words[at] in operands and words[at].text[:1] != "+"]


def _check_ps(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `ps`: an `e` without a dash shows the environment of every program, as does a column of that name. If the
    letters after a dash are invalid, such as `-x`, or `-u` without a user, ps reads all of them as if there were no
    dash."""
    dashed = [at for at in range(1, len(words)) if _PS_DASHED.fullmatch(words[at].text)]
    shows_all = (
        [at for at in dashed if "e" in words[at].text] if any(_PS_ODD.search(words[at].text) for at in dashed) else []
    )
    proof.unproved_indices += shows_all
    proof.unproved_indices += [
        at
        for at in range(1, len(words))
        if (words[at] in operands and not (set(words[at].text) <= _PS_LETTERS or words[at].text.isdecimal()))
        or "environ" in words[at].text.casefold()
    ]


def _check_command(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    if len(words) < 2 or words[1].text not in ("-v", "-V"):
        proof.unproved_indices.append(len(words) - 1)


def _check_archive(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git archive`: for other formats, the repository's settings name the programs to run."""
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        archive_format = text.partition("=")[2] if "=" in text else "".join(texts[at + 1 : at + 2])
        if text.partition("=")[0] == "--format" and archive_format not in ("tar", "zip"):
            proof.unproved_indices.append(at)


def _check_config(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git config`: one word reads a setting, two words would write it. Settings that may contain secrets are not
    allowed, nor are those that have other values in guarded git calls."""
    key = operands[0].text.casefold() if len(operands) == 1 and operands[0].is_plain else ""
    if "." not in key or _SECRET_SETTING.search(key) or key in _GUARDED_SETTINGS:
        proof.unproved_indices.append(len(words) - 1)


def _check_clean(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git clean`: only a dry run is read-only."""
    if not any(re.fullmatch("-[dxXq]*n[dnxXq]*|--dry-run", word.text) for word in _before_dashes(words)):
        proof.unproved_indices.append(len(words) - 1)


def _check_jq(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    proof.unproved_indices += [
        at
        for at in range(1, len(words))
        if words[at] in operands[:1] and (words[at].is_glob or _JQ_UNSAFE_BUILTIN.search(words[at].text))
    ]


def _check_remote(operands: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git fetch`: a rule covers the configured remotes, not other addresses or forced branch updates."""
    proof.unproved_indices += [
        at for at in range(1, len(words)) if words[at] in operands and (":" in words[at].text or words[at].is_glob)
    ]


_CHECKS: Mapping[str, Callable[[Sequence[Word], Sequence[Word], Proof], None]] = {
    "test": _check_test, "printf": _check_printf, "date": _check_date, "ps": _check_ps, "command": _check_command,
    "tar": check_tar, "git archive": _check_archive, "jq": _check_jq,
    "git config": _check_config, "git clean": _check_clean,
    "git fetch": _check_remote, "git ls-remote": _check_remote,
}  # fmt: skip
