"""Proves programs whose arguments are a language of their own: find, sed, awk and tar. Pure."""

import re
from collections.abc import Sequence
from dataclasses import field

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.programs import AWK_WORDS, FIND_ALONE, FIND_WITH_FILE, FIND_WITH_TEXT
from ebbtide.tools.lazy import dataclass, regex

_MAX_SCRIPT_CHARS = 1_000
"""Maximum number of characters in a sed or awk program."""


def _sed_pattern(end: str) -> str:
    """Return the pattern of a sed regular expression up to the delimiter `end`. Some versions of sed end it within
    brackets and some do not, so delimiters there are not allowed."""
    inside = rf"\[(?!{end}):[a-z]{{1,10}}:\]|\[(?![:.=])|\\[^\[\]\n]|(?!{end})[^\\\[\]\n]"
    return rf"(?:(?!{end})[^\\\[\n]|\\[^c\n]|\[\^?+\]?+(?:{inside})*+\])*+{end}"


_SED_ADDRESS = rf"(?:\d+|\$|/{_sed_pattern('/')}I?)"
_SED_SWAP = rf"s(?P<m>[/|#,:@!]){_sed_pattern('(?P=m)')}(?:(?!(?P=m))[^\\\n]|\\.)*(?P=m)[gpiI0-9]*"
_SED_ADDRESSES = rf"(?:\d+~\d+|{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|[+~]\d+))?)?"
_SED_MAPS = r"y(?P<y>[/|#,:@!])(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)"
_SED_STEP = regex(
    rf" *{_SED_ADDRESSES} ?!?(?:\{{|(?:[pPdDqnNgGhHxzlF=]|{_SED_SWAP}|{_SED_MAPS}) *(?=[;\n}}]|\Z)"
    r"|[aic]\\?[^\\\n]+(?=\n|\Z))|[;\n} ]"
)
"""A command up to where the next one may begin, a group's braces, or a separator."""
_SED_SCRIPT = regex(r"(?:-[nErszu]*e|--expression(?:=|\Z))(?P<script>.*)", re.DOTALL)
_SED_LETTERS = set("nErszu")
_SED_NAMES = {"--quiet", "--silent", "--regexp-extended", "--null-data", "--separate", "--unbuffered", "--posix"}
_AWK_SIGN = regex(r'["/]')
_AWK_TEXT = regex(r'"(?:[^"\\\n]|\\.)*"')
_AWK_INSIDE = r"\[:[a-z]{1,10}:\]|\[(?![:.=])|\\[^\[\]\n]|[^\\/\[\]\n]"
_AWK_PATTERN = regex(rf"/(?:[^/\\\[\n]|\\.|\[\^?+\]?+(?:{_AWK_INSIDE})*+\])*+/")
"""Like sed: in some versions, a slash within brackets ends the pattern."""
_AWK_BEFORE_PATTERN = regex(r"(?:\A|[~(,!&|{};\n=?:<>%^*])[ \t]*\Z")
"""Text before a slash that cannot be a division."""
_AWK_BEFORE_DIVISION = regex(r"(?:(?P<word>\w+)|\]|(?P<group>\)))[ \t]*\Z")
_AWK_VERBS = {"print", "printf", "return", "in", "else", "do", "case", "exit", "getline", "delete"}
"""Words that a pattern may follow."""
_AWK_HEADS = regex(r"\b(?:if|while|for|switch)\b")
"""Keywords whose parenthesised condition a pattern may follow."""
_AWK_ODD = regex(r"[@\\#]|(?<!\|)\|(?!\|)|(?<![\w.])(?=\.?\d)(?!\.?\d[\d.]*(?:[eE][+-]?\d+)?(?![\w.]))")
"""Indirect calls, input from elsewhere, comments, and numbers touching a name."""
_AWK_CONTINUATION = regex(r"(?<=[,&|?:])\s*\n")
"""Operators after which a statement continues on the next line."""
_AWK_NAME = regex(r"(?<!\w)[A-Za-z_]\w*(?P<call>\s*\()?")
_AWK_BARRED = {
    "ENVIRON", "PROCINFO", "ARGV", "ARGC", "SYMTAB", "FUNCTAB", "getline", "system", "close", "fflush",
    "function", "func",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operand:
    """A word that names, or may name, a file."""

    text: str
    at: int
    """Its index in the command."""
    globs: bool = False


@dataclass(slots=True)
class Proof:
    """What is known of one call."""

    name: str
    """The program, for git with its subcommand."""
    only_looks: bool = True
    unproved: list[int] = field(default_factory=list)
    """Indices of words whose effect is unknown."""
    files: list[Operand] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    needs_input: bool = False
    """Whether it reads the terminal unless it has other input."""
    names_from: int = 0
    """Index in the command at which names are inserted, or 0 if none are."""
    shows_found: bool = False
    """Whether it makes another program show the contents of the files it finds."""

    @property
    def beyond(self) -> int | None:
        """The last index that is not proved, or None if all are."""
        return max(self.unproved, default=None)

    @property
    def only_names(self) -> bool:
        """Whether no file contents are shown."""
        return not self.shows_found and self.name in (
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
    def searches(self) -> bool:
        """Whether it shows lines of files that it does not name."""
        return self.name in ("rg", "grep", "egrep", "fgrep") or self.name.startswith("git ")


def may_be_option(word: Word) -> bool:
    """Whether the shell may expand the word to a file name that reads as an option, or as a different one."""
    return word.globs and (word.text[0] in "*?[" or (word.text[0] == "-" and not re.match(r"--[\w-]+=", word.text)))


def prove_find(words: Sequence[Word], proof: Proof) -> None:
    """Prove find. Paths come first, then the expression, in which an unknown word may run programs, write or delete."""
    at, in_places = 1, True
    while at < len(words):
        text = words[at].text
        if words[at].globs and text[:1] in "*?[-(!,":
            proof.unproved.append(at)
        elif in_places and text[:1] not in "-(!,":
            proof.files.append(Operand(text, at, words[at].globs))
        elif text in FIND_ALONE:
            in_places = text in ("-H", "-P")
        elif text in FIND_WITH_TEXT or text in FIND_WITH_FILE:
            in_places = False
            at += 1
            if at >= len(words) or (words[at].globs and not (text in FIND_WITH_TEXT and _is_no_test(words[at].text))):
                proof.unproved.append(min(at, len(words) - 1))
            elif text in FIND_WITH_FILE:
                proof.files.append(Operand(words[at].text, at))
        else:
            proof.unproved.append(at)
        at += 1


def _is_no_test(pattern: str) -> bool:
    """Whether no expansion of the pattern can be a test of find, which reports an error then."""
    return pattern[:1].isalnum() or "." in re.sub(r"\[[^]]*\]?", "", pattern)


def prove_sed(words: Sequence[Word], proof: Proof) -> None:
    """Prove sed if it only prints, deletes and replaces."""
    scripts, operands, at, is_over = dict[int, str](), list[int](), 1, False
    while at < len(words):
        text = words[at].text
        given = _SED_SCRIPT.fullmatch(text)
        if may_be_option(words[at]):
            proof.unproved.append(at)
        elif is_over:
            operands.append(at)
        elif text == "--":
            is_over = True
        elif given is not None and not given["script"]:
            at += 1
            scripts[min(at, len(words) - 1)] = words[at].text if at < len(words) else "?"
        elif given is not None:
            scripts[at] = given["script"]
        elif text[:1] != "-" or text == "-":
            operands.append(at)
        elif text not in _SED_NAMES and not (len(text) > 1 and set(text[1:]) <= _SED_LETTERS):
            proof.unproved.append(at)
        at += 1
    if not scripts:
        scripts, operands = {at: words[at].text for at in operands[:1]}, operands[1:]
    proof.unproved += [at for at, script in scripts.items() if words[at].globs or not _is_safe_sed(script)]
    if not scripts:
        proof.unproved.append(0)
    proof.files += [Operand(words[at].text, at, words[at].globs) for at in operands if words[at].text != "-"]


def _is_safe_sed(script: str) -> bool:
    """Whether each command of the script, parsed in order as sed does, only edits the output."""
    at = 0
    while at < len(script) <= _MAX_SCRIPT_CHARS:
        found = _SED_STEP.match(script, at)
        if found is None:
            return False
        at = found.end()
    return 0 < at == len(script)


def prove_awk(words: Sequence[Word], proof: Proof) -> None:
    at = 1
    while at < len(words) and words[at].text[:1] == "-" and words[at].text != "--":
        text = words[at].text
        if text in ("-F", "-v"):
            at += 1
            if at < len(words) and words[at].globs:
                proof.unproved.append(at)  # the second of several names would be the program
        elif not (text.startswith(("-F", "-v")) and text[2:]):
            proof.unproved.append(at)
        at += 1
    at += at < len(words) and words[at].text == "--"
    if at >= len(words) or words[at].globs or not _is_safe_awk(words[at].text):
        proof.unproved.append(min(at, len(words) - 1))
    for place in range(at + 1, len(words)):
        word = words[place]
        if may_be_option(word) or word.text.startswith("/inet"):  # a network connection, not a file
            proof.unproved.append(place)
        elif not re.match(r"[A-Za-z_]\w*=", word.text):
            proof.files.append(Operand(word.text, place, word.globs))


def _is_safe_awk(program: str) -> bool:
    """Whether the program only computes and prints, and calls no programs, no files and only known functions."""
    code = _code_of_awk(program) if len(program) <= _MAX_SCRIPT_CHARS else None
    if code is None or _AWK_ODD.search(code):
        return False
    if any(
        -1 < part.find("print") < part.rfind(">") for part in re.split(r"[;{}\n]", _AWK_CONTINUATION.sub(" ", code))
    ):
        return False  # it may write to a file
    return all(
        name[0].rstrip("(\n\t ") not in _AWK_BARRED and (not name["call"] or name[0].rstrip("(\n\t ") in AWK_WORDS)
        for name in _AWK_NAME.finditer(code)
    )


def _code_of_awk(program: str) -> str | None:
    """Return the program with each string and pattern replaced with a number, or None if it is unclear where one ends
    or whether a slash is a division."""
    code, at, is_behind_pattern = "", 0, False
    while (sign := _AWK_SIGN.search(program, at)) is not None:
        before, start = program[at : sign.start()], sign.start()
        code += before
        if sign[0] == "/" and _divides(code):
            if is_behind_pattern and not before.strip(" \t"):
                return None
            code, at, is_behind_pattern = f"{code}/", start + 1, False
            continue
        is_behind_pattern = sign[0] == "/"
        if is_behind_pattern and not _AWK_BEFORE_PATTERN.search(code):
            return None
        found = (_AWK_PATTERN if is_behind_pattern else _AWK_TEXT).match(program, start)
        if found is None:
            return None
        code, at = f"{code} 0 ", found.end()
    return code + program[at:]


def _divides(code: str) -> bool:
    """Whether a slash after this code can only be a division."""
    found = _AWK_BEFORE_DIVISION.search(code)
    if found is None or found["word"] in _AWK_VERBS:
        return False
    return found["group"] is None or not _AWK_HEADS.search(code)


def check_tar(given: Sequence[Word], words: Sequence[Word], proof: Proof) -> None:
    """Check tar. Its first word is options even without a dash, and a name with a colon is on another machine."""
    first = words[1] if len(words) > 1 else Word("")
    if first.text[:1] != "-" and not set(first.text) <= set("cxtvzjJkpmf"):
        proof.unproved.append(1)
    proof.unproved += [at for at in range(1, len(words)) if ":" in words[at].text]
    archive = 2 if first.text[:1] != "-" and "f" in first.text and len(words) > 2 else 0
    if archive and words[archive].globs:
        proof.unproved.append(archive)  # the first of several names would be written to
    packs = writes_archive(words)
    proof.files += [
        Operand(words[at].text, at, words[at].globs)
        for at in range(1 + bool(archive), len(words))
        if at == archive or (packs and words[at] in given)
    ]
    proof.files[:] = [file for file in proof.files if file.text != "-"]


def writes_archive(words: Sequence[Word]) -> bool:
    """Whether tar creates an archive rather than extracting or listing one."""
    first = words[1].text if len(words) > 1 else ""
    old = first[:1] != "-" and "c" in first
    return old or any(re.fullmatch("-[A-Za-z]*c[A-Za-z]*|--create", word.text) for word in words[1:])
