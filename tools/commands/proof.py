"""Proves that a call of a program is read-only, using the table of such programs, and collects the files it names.
Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.nested import program_of
from ebbtide.tools.commands.programs import GIT_KNOWN, GIT_RUNS_OTHERS, GIT_RUNS_WITH, ONLY_KNOWN, ROWS, set_of
from ebbtide.tools.commands.scripts import Operand, Proof, check_tar, may_be_option, prove_awk, prove_find, prove_sed
from ebbtide.tools.lazy import dataclass, regex

OTHER_NAMES: Mapping[str, str] = {
    "fdfind": "fd", "gfind": "find", "gsort": "sort", "gtar": "tar", "bsdtar": "tar", "ripgrep": "rg", "gsed": "sed",
    "gawk": "awk", "mawk": "awk", "nawk": "awk",
}  # fmt: skip
_NUMBER, _COUNT = regex(r"[+-]?\d{1,9}[kKMG]?"), regex(r"-\d{1,9}")
_ASKS_FOR_SIGNATURE = regex(r"%[+ -]?G|%\(\*?sig")
"""Formats that show signatures run the program that verifies them."""
_LISTS_ARCHIVE = regex("-?t[vzjJ]*f")
_REVISION = regex(r"@(\{(u|upstream|push|\d{1,6})\})?(\.{2,3}[\w./-]*)?")
"""Of the revisions starting with `@`, those that can only mean one or two commits."""
_LISTS = ("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_TAKE_PATTERNS = {"grep", "egrep", "fgrep", "rg", "git grep"}
_PS_DASHED, _PS_ODD = regex(r"-[A-Za-z]\S*"), regex("[xu]")
_PS_LETTERS = set("acfghjlnSTuvwxX")
_SECRET_SETTING = regex("(?i)header|pass|token|secret|credential|insteadof|proxy|cookie")
_OTHER_SETTINGS = set_of(
    "core.fsmonitor core.hookspath core.untrackedcache core.pager diff.external diff.submodule diff.ignoresubmodules "
    "diff.autorefreshindex status.submodulesummary submodule.recurse log.showsignature gpg.program gpg.x509.program "
    "gpg.ssh.program safe.barerepository protocol.ext.allow"
)
"""Settings that differ in the guarded git calls of read-only commands."""
_JQ = regex(
    r"(?<![.\w\"$])(?:env|ENV|import|include|input_filename|get_search_list|modulemeta)(?![\w\"])|\$(?:ENV|__prog)"
)
"""Builtins of jq that access more than the input. Fields of the same name are harmless."""
_TEST_WORDS = set_of("-f -e -d -n -z -t -s -r -w -x -L -h -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ! = == != ( )")
_RG_HIDDEN = regex(r"-[A-Za-z0-9]*[u.][A-Za-z0-9.]*|--hidden|--no-ignore|--unrestricted")
TAKE_ANY_NAME = {"ls", "cat", "head", "nl", "stat", "echo", "printf"}
"""Programs that stay read-only whatever names a pattern expands to."""
_NEVER_ATTACHED = {"tree"}
"""Programs whose letter options take the next word as a value, and the following characters as letters: `tree -Po
PATTERN FILE`."""
_READ_OPTIONS_FROM = set_of("nm objdump readelf strings")
"""Programs that read arguments from a file if a word begins with `@`."""
_NAMED_COUNT = regex(r"%[^%a-zA-Z]*[hljztL]*n")


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """A parsed row of the table."""

    letters: frozenset[str] = frozenset()
    valued: Mapping[str, str] = field(default_factory=dict)
    """Letters and long names with a value, and its kind."""
    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    counts: bool = False
    operands: str = ""
    only_looks: bool = True


def check_read_only(words: Sequence[Word], *, is_fed: bool = False) -> Proof | None:
    """Return the proof for a call, or None if the program is in no table."""
    if not words or not words[0].is_plain:
        return None
    name, start = program_of([words[0].text]), 1
    name = OTHER_NAMES.get(name, name)
    if name == "git":
        name, start = _git_command(words)
    special = {"find": prove_find, "sed": prove_sed, "awk": prove_awk}.get(name)
    row = row_of(name)
    if special is None and row is None and not name.startswith("git"):
        return None
    lists = name == "tar" and len(words) > 2 and bool(_LISTS_ARCHIVE.fullmatch(words[1].text))
    proof = Proof(name, only_looks=special is not None or lists or (row is not None and row.only_looks))
    if name in _READ_OPTIONS_FROM:
        proof.unproved += [at for at, word in enumerate(words) if word.text[:1] == "@" or word.globs]
    pagers = 2 if len(words) > 1 and words[1].text == "--no-pager" else 1
    proof.unproved += [at for at in range(pagers, start) if words[at].text[:1] == "-"]
    if special is not None:
        special(words, proof)
    elif row is not None:
        _by_row(words, start, row, proof, is_fed=is_fed)
    else:
        _other_git(words, start, proof)
    return proof


@cache
def row_of(name: str) -> ProgramRow | None:
    text = ROWS.get(name) or ONLY_KNOWN.get(name)
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
        frozenset(letters), valued, frozenset(names), frozenset(words), counts, operands.strip(), name in ROWS
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
        two = ""  # one word with a blank is not two words
    return (two, at + 2) if two.count(" ") == 2 and two in ROWS else (f"git {words[at].text.replace(' ', '?')}", at + 1)


def _other_git(words: Sequence[Word], start: int, proof: Proof) -> None:
    """Check git commands that make changes: it is only known which of them run other programs."""
    told = proof.name.removeprefix("git ")
    if told in GIT_RUNS_OTHERS or told not in GIT_KNOWN | {"git"}:
        proof.unproved.append(min(start, len(words)) - 1)
    for at in range(start, len(words)):
        name = words[at].text.partition("=")[0]
        is_begun = name[:2] == "--" and len(name) > 2 and any(one.startswith(name) for one in GIT_RUNS_WITH)
        if is_begun or words[at].text.startswith(GIT_RUNS_WITH) or may_be_option(words[at]):
            proof.unproved.append(at)


def _by_row(words: Sequence[Word], start: int, row: ProgramRow, proof: Proof, *, is_fed: bool) -> None:
    """Process the options, then check the operands."""
    operands, has_pattern, at, is_over = list[int](), False, start, False
    while at < len(words):
        word = words[at]
        text = word.text
        if not is_over and may_be_option(word) and not (proof.name in TAKE_ANY_NAME and text[0] != "-"):
            proof.unproved.append(at)
        elif is_over or text[:1] != "-" or text == "-" or (row.operands == "text*" and proof.name in ("echo", "test")):
            operands.append(at)
        elif text == "--":
            is_over = True
        elif text in row.words or (row.counts and _COUNT.fullmatch(text)):
            pass
        else:
            taken, is_pattern = _option(words, at, row, proof)
            has_pattern = has_pattern or is_pattern
            at += taken
        at += 1
    _check_operands(words, operands, row, proof, has_pattern=has_pattern, is_fed=is_fed)


def _option(words: Sequence[Word], at: int, row: ProgramRow, proof: Proof) -> tuple[int, bool]:
    """Return how many of the following words are the option's value, and whether it is the search pattern."""
    text = words[at].text
    if text[:2] == "--":
        name, has_value, value = text.partition("=")
        kind = row.valued.get(name)
        if kind is None or kind == "e!":
            if has_value or (kind is None and name not in row.names):
                proof.unproved.append(at)
            return 0, kind == "e!"
        if has_value:
            _check_value(kind, value, at, proof)
            return 0, kind == "e"
        if kind == "o":
            return 0, False
        return _value_behind(words, at, kind, proof)
    for place, letter in enumerate(text[1:], 2):
        kind = row.valued.get(f"-{letter}")
        if kind is None and letter in row.letters:
            continue
        if kind is None or (text[place:] and proof.name in _NEVER_ATTACHED and kind != "n"):
            proof.unproved.append(at)
            return 0, False
        if text[place:] or kind == "o":
            _check_value(kind, text[place:], at, proof)
            return 0, kind == "e"
        return _value_behind(words, at, kind, proof)
    return 0, False


def searches_hidden(words: Sequence[Word]) -> bool:
    """Whether a call shows lines of all files in a folder, including hidden ones."""
    name = program_of([words[0].text])
    if name in ("grep", "egrep", "fgrep"):
        return is_recursive(words)
    return OTHER_NAMES.get(name, name) == "rg" and any(_RG_HIDDEN.fullmatch(word.text) for word in words[1:])


def _value_behind(words: Sequence[Word], at: int, kind: str, proof: Proof) -> tuple[int, bool]:
    if kind == "2":
        given = words[at + 1 : at + 3]
        proof.unproved += [] if len(given) == 2 and not any(word.globs for word in given) else [at]
        return len(given), False
    if at + 1 >= len(words) or words[at + 1].globs or not _may_be_value(kind, words[at + 1].text, proof):
        proof.unproved.append(min(at + 1, len(words) - 1))
        return 0, kind == "e"
    _check_value(kind, words[at + 1].text, at + 1, proof)
    return 1, kind == "e"


def _may_be_value(kind: str, text: str, proof: Proof) -> bool:
    """Whether the value is not in doubt. A value that begins with a dash could be an option, unless it is a number or
    the pattern of a program that takes it literally."""
    is_number = kind == "n" and _NUMBER.fullmatch(text) is not None
    is_pattern = kind == "e" and proof.name in _TAKE_PATTERNS
    return text[:1] != "-" or is_number or is_pattern


def _check_value(kind: str, value: str, at: int, proof: Proof) -> None:
    if kind == "n" and not _NUMBER.fullmatch(value):
        proof.unproved.append(at)
    if kind in ("p", "l"):
        proof.files.append(Operand(value.rpartition(":")[2] if kind == "l" else value, at))
    if kind == "x" or (proof.name.startswith("git") and _ASKS_FOR_SIGNATURE.search(value)):
        proof.unproved.append(at)


def _check_operands(
    words: Sequence[Word], operands: list[int], row: ProgramRow, proof: Proof, *, has_pattern: bool, is_fed: bool
) -> None:
    check = _CHECKS.get(proof.name)
    if check is not None:
        check([words[at] for at in operands], words, proof)
    kind = row.operands
    if kind.startswith("pattern"):
        kind = kind.removeprefix("pattern").strip()
        if not has_pattern:
            proof.unproved += [at for at in operands[:1] if words[at].globs]  # the further names are files
            if not operands and not is_fed and proof.name != "fd":
                proof.needs_input = True
            operands = operands[1:]
        asks_nothing = proof.name == "jq" and any(re.fullmatch("-[A-Za-z]*n.*|--null-input", one.text) for one in words)
        if (not operands and proof.name in ("egrep", "fgrep", "jq") and not asks_nothing) or (
            proof.name == "grep" and not operands and not is_recursive(words)
        ):
            proof.needs_input = not is_fed
    if kind == "none":
        proof.unproved += operands
    elif kind == "list" and operands and not any(word.text.startswith(_LISTS) for word in _before_dashes(words)):
        proof.unproved += operands  # it would create a branch or tag of that name
    elif kind in ("path+", "path?"):
        proof.needs_input = proof.needs_input or not (operands or is_fed)
        if kind == "path?":
            # The next one would be written to, and so would the second of several names that a pattern expands to.
            proof.unproved += [at for place, at in enumerate(operands) if place or words[at].globs]
    if proof.name in ("echo", "printf"):  # they show the names that patterns expand to
        proof.files += [Operand(words[at].text, at, globs=True) for at in operands if words[at].globs]
    if kind[:4] in ("path", "rev*"):
        for at in operands:
            _take_file(words[at], at, kind, proof, is_fed=is_fed)


def _before_dashes(words: Sequence[Word]) -> Sequence[Word]:
    return words[: next((at for at, word in enumerate(words) if word.text == "--"), len(words))]


def _take_file(word: Word, at: int, kind: str, proof: Proof, *, is_fed: bool) -> None:
    text = word.text
    if text == "-":
        proof.needs_input = proof.needs_input or not is_fed
    elif not text or (kind == "rev*" and ((text[0] in ":@" and not _REVISION.fullmatch(text)) or "\\" in text)):
        proof.unproved.append(at)  # its meaning to git is unknown
    else:
        proof.files.append(Operand(text, at, word.globs))
        if kind == "rev*":
            _, colon, path = text.partition(":")
            if colon and path:
                proof.files.append(Operand(path, at, word.globs))


def is_recursive(words: Sequence[Word]) -> bool:
    return any(re.fullmatch(r"-[A-Za-z]*r[A-Za-z]*|--recursive", word.text) for word in words)


def _check_test(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `test`: an unknown option may evaluate its operand, and so does the index in `name[index]`."""
    for at in range(1, len(words)):
        text = words[at].text
        if (
            (text[:1] == "-" and text not in _TEST_WORDS and not _COUNT.fullmatch(text))
            or "[" in text
            or words[at].globs
        ):
            proof.unproved.append(at)


def _check_printf(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    if not given or given[0].globs or _NAMED_COUNT.search(given[0].text):
        proof.unproved.append(len(words) - 1)  # it would set a variable


def _check_date(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    proof.unproved += [at for at in range(1, len(words)) if words[at] in given and words[at].text[:1] != "+"]


def _check_ps(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `ps`: an `e` without a dash shows every program's environment, and so does a column of that name. If
    letters after a dash are invalid, as `-x` and `-u` without a user are, ps reads all of them as if without a dash."""
    dashed = [at for at in range(1, len(words)) if _PS_DASHED.fullmatch(words[at].text)]
    shows_all = (
        [at for at in dashed if "e" in words[at].text] if any(_PS_ODD.search(words[at].text) for at in dashed) else []
    )
    proof.unproved += shows_all
    proof.unproved += [
        at
        for at in range(1, len(words))
        if (words[at] in given and not (set(words[at].text) <= _PS_LETTERS or words[at].text.isdecimal()))
        or "environ" in words[at].text.casefold()
    ]


def _check_command(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    if len(words) < 2 or words[1].text not in ("-v", "-V"):
        proof.unproved.append(len(words) - 1)


def _check_archive(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git archive`: the repository's settings name the programs for other formats."""
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        form = text.partition("=")[2] if "=" in text else "".join(texts[at + 1 : at + 2])
        if text.partition("=")[0] == "--format" and form not in ("tar", "zip"):
            proof.unproved.append(at)


def _check_config(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git config`: one word reads a setting, two would write it. Values that contain keys are not shown, nor are
    values that differ in guarded git calls."""
    key = given[0].text.casefold() if len(given) == 1 and given[0].is_plain else ""
    if "." not in key or _SECRET_SETTING.search(key) or key in _OTHER_SETTINGS:
        proof.unproved.append(len(words) - 1)


def _check_clean(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git clean`: only a dry run is proved."""
    if not any(re.fullmatch("-[dxXq]*n[dnxXq]*|--dry-run", word.text) for word in _before_dashes(words)):
        proof.unproved.append(len(words) - 1)


def _check_jq(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    proof.unproved += [
        at for at in range(1, len(words)) if words[at] in given[:1] and (words[at].globs or _JQ.search(words[at].text))
    ]


def _check_remote(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check `git fetch`: a rule covers the configured remotes, not other addresses or forced branch updates."""
    proof.unproved += [
        at for at in range(1, len(words)) if words[at] in given and (":" in words[at].text or words[at].globs)
    ]


_CHECKS: Mapping[str, Callable[[Sequence[Word], Sequence[Word], Proof], None]] = {
    "test": _check_test, "printf": _check_printf, "date": _check_date, "ps": _check_ps, "command": _check_command,
    "tar": check_tar, "git archive": _check_archive, "jq": _check_jq,
    "git config": _check_config, "git clean": _check_clean,
    "git fetch": _check_remote, "git ls-remote": _check_remote,
}  # fmt: skip
