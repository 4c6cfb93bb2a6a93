"""File names passed from one program to another: by `xargs`, by `find -exec` or by a loop that reads them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.programs import set_of
from ebbtide.tools.commands.proof import OTHER_NAMES, check_read_only, is_recursive, row_of
from ebbtide.tools.commands.scripts import Proof
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.files import SECRET_FILES, SECRET_FOLDERS

_XARGS = regex(r"(?:-[0rt]+|--null|--no-run-if-empty|-[nLP] ?\d{1,4}|-I ?[{}%@_]{1,3}|-d ?(?:\\n|,)) ")
"""Options of xargs. The placeholder of `-I` must not be part of a program's name, which it would change."""
NAMES_ONLY = set_of("wc ls basename dirname du stat realpath readlink echo file")
"""Programs that show no more of a file than its name, type or size."""
SHOW_CONTENT = set_of("grep egrep fgrep cat head tail sed nl sort cut")
"""Programs that show the content of a file, and accept `--` before its name."""
_PASS_NAMES_ON = {"sort", "uniq", "head", "tail", "grep", "egrep", "fgrep"}
_FILTERS = {
    "grep": regex("[vEiFPwxz]+"), "egrep": regex("[viwxz]+"), "fgrep": regex("[viwxz]+"), "sort": regex("[runVz]+"),
    "head": regex(r"z|n?\d*"), "tail": regex(r"z|n?\d*"), "uniq": regex("z"),
}  # fmt: skip
"""Programs that pass names on unchanged, and the option letters for which that holds. All of them accept `-z`."""
_LIST_BY_RG, _LIST_BY_GREP = regex("[lniSsFwU0]+"), regex("[rlniEFwIsZ]+")
_RG_NAMES = {"--files", "--files-with-matches", "--hidden", "--no-ignore", "--fixed-strings", "--ignore-case"}
_LIST_BY_GIT = {
    "git ls-files": set_of("-z -c -m -o -co -oc -cz -mo -om --cached --modified --others --exclude-standard --"),
    "git diff": set_of("-z --name-only --cached --staged --"),
}
"""Options of git commands that list files, with which they remain plain listings."""
_FIND_ACTIONS = {"-print", "-print0", "-ls", "-printf", "-quit", "-prune", "-exec"}
_EITHER = {"-o", "-or", ","}
_SAFE_LISTING = regex("-[A-Za-z]*[ld][A-Za-z]*")
_NOT_LINKS = ("!", "-type", "l")


@dataclass(frozen=True, slots=True)
class Givers:
    """The commands at the end of a pipe that print file names, rewritten so that names end in a NUL byte, and links out
    of the folder and files with secrets are omitted."""

    commands: Sequence[SimpleCommand]
    """These replace as many commands at the end of the pipe."""
    further: Sequence[SimpleCommand] = ()
    """These are appended to the pipe."""


def _secret_tests() -> Sequence[str]:
    names = [part for name in SECRET_FILES for part in ("-o", "-iname", name)][1:]
    folders = [part for name in SECRET_FOLDERS for part in ("!", "-ipath", f"*/{name}/*")]
    return ("!", "(", *names, ")", "!", "(", "-iname", "config", "-ipath", "*.git/*", ")", *folders)


def prove_names_xargs(
    words: Sequence[Word], before: Sequence[tuple[SimpleCommand, Proof]], *, is_fed: bool
) -> Proof | None:
    """Return the proof for xargs if a read-only command finds the names and only names are shown. The program runs with
    `--` after its options, so that no name is read as an option."""
    at = _behind_xargs(words)
    if not is_fed or at >= len(words) or words[at].text not in NAMES_ONLY or not lists_files(before):
        return None
    end = next((place for place in range(at + 1, len(words)) if words[place].text[:1] != "-"), len(words))
    proof = check_read_only((*words[at:end], Word("--"), Word("x"), *words[end:]), is_fed=True)
    if proof is None or proof.unproved:
        return None
    return Proof("xargs", names_from=0 if words[at].text == "echo" else end)  # `echo` would print the dashes


def _behind_xargs(words: Sequence[Word]) -> int:
    """Return the index of the program that xargs runs, or the number of words if unknown."""
    if not all(word.is_plain for word in words):
        return len(words)
    at = 1
    while (option := _XARGS.match(" ".join((*(word.text for word in words[at : at + 2]), "")))) is not None:
        at += option[0].count(" ")
    return at


def lists_files(commands: Sequence[tuple[SimpleCommand, Proof]]) -> bool:
    """Whether the pipe's output is file names found by a read-only command and unchanged on the way."""
    for command, proof in reversed(commands):
        texts = command.texts
        letters = "".join(text[1:] for text in texts if text[:1] == "-" and text[:2] != "--")
        if proof.name in _PASS_NAMES_ON and command.is_fed:
            if "o" in letters or "--only-matching" in texts:
                return False
            continue
        if proof.name in ("find", "fd", "ls", "git ls-files") or (proof.name == "git diff" and "--name-only" in texts):
            return not any(text.startswith(("-printf", "--format")) for text in texts)
        return proof.name in ("rg", "grep") and ("l" in letters or "--files" in texts) and "o" not in letters
    return False


def prove_content_xargs(
    command: SimpleCommand, before: Sequence[tuple[SimpleCommand, Proof]]
) -> tuple[Givers, SimpleCommand, Proof] | None:
    """Return the proof for xargs with a program that shows file contents: the commands that supply the names, and xargs
    itself, rewritten so that names arrive whole and are neither links nor files with secrets."""
    words, at = command.words, _behind_xargs(command.words)
    options = " ".join(word.text for word in words[1:at])
    if at >= len(words) or re.search("(^| )-[0rt]*[dL]", options) or command.joint != "|" or _reads_a_file(command):
        return None
    replaced = re.search("-I ?([^ ]+)", options)
    inner = words[at:]
    if replaced is not None:
        if inner[-1].text != replaced[1] or any(replaced[1] in word.text for word in inner[:-1]):
            return None
        inner = inner[:-1]
    givers = find_givers(before)
    shown = _prove_with_name(inner, SHOW_CONTENT)
    if givers is None or shown is None:
        return None
    first = () if re.search("(^| )(-[rt]*0|--null)", options) else (Word("-0"),)
    given = (*words[:1], *first, *words[1:at], *inner, Word("--"), *words[len(words) - (replaced is not None) :])
    return givers, replace_words(command, given), Proof("xargs", files=list(shown.files))


def _prove_with_name(words: Sequence[Word], programs: frozenset[str]) -> Proof | None:
    """Return the proof for a program that gets a file name after its words. That name is not among the proof's
    files."""
    if not words or not all(word.is_plain for word in words) or words[0].text not in programs:
        return None
    name, is_dashed = Word("ebb"), words[0].text in SHOW_CONTENT
    given = (*words, *((Word("--"),) if is_dashed else ()), name)
    if any(word.text in ("--", "-") for word in words) or not _is_whole(words):
        return None
    if words[0].text.endswith("grep") and is_recursive(words):
        return None
    proof = check_read_only(given, is_fed=True)
    if proof is None or not proof.only_looks or proof.unproved or proof.needs_input:
        return None
    named = [file for file in proof.files if file.at == len(given) - 1]
    proof.files = [file for file in proof.files if file.at != len(given) - 1]
    return proof if named or proof.name in ("basename", "dirname", "echo") else None


def _reads_a_file(command: SimpleCommand) -> bool:
    return any(one.sign == "<" for one in command.redirections)


def _is_whole(words: Sequence[Word]) -> bool:
    """Whether the last word is not an option that takes the next word as its value."""
    text, name = words[-1].text, OTHER_NAMES.get(words[0].text, words[0].text)
    if len(words) == 1 or text[:1] != "-":
        return True
    row = row_of(name)
    if row is None:
        return name == "sed" and set(text[1:]) <= set("nErszu")
    return text in row.names or text[1:].isdecimal() or set(text[1:]) <= row.letters


def find_givers(before: Sequence[tuple[SimpleCommand, Proof]]) -> Givers | None:
    """Return the commands at the end of a pipe, rewritten so that another program may show the contents of the files
    they list, or None if impossible."""
    found = list[SimpleCommand]()
    for command, proof in reversed(before):
        if any(one.target.text != "/dev/null" for one in command.redirections):
            return None  # messages would be read as names
        if proof.name in _FILTERS and command.is_fed:
            if command.joint != "|" or not _passes_whole(command, proof):
                return None
            found.insert(0, _add_option(command, "-z"))
            continue
        if command.is_fed:
            return None
        if (by_git := _git_giver(command, proof)) is not None:
            return Givers((by_git, *found), _resolvers())
        giver = _giver(command, proof)
        return None if giver is None else Givers((giver, *found))
    return None


def _git_giver(command: SimpleCommand, proof: Proof) -> SimpleCommand | None:
    """Return a git command that ends each name in a NUL byte. It lists links too, so `_resolvers` follow it."""
    known = _LIST_BY_GIT.get(proof.name)
    end = proof.name.count(" ") + (2 if command.texts[1:2] == ("--no-pager",) else 1)
    if known is None or (proof.name == "git diff" and "--name-only" not in command.texts):
        return None
    if any(text[:1] == "-" and text not in known and text[:14] != "--diff-filter=" for text in command.texts[end:]):
        return None
    zero = () if {"-z", "-cz"} & set(command.texts) else (Word("-z"),)
    return replace_words(command, (*command.words[:end], *zero, *command.words[end:]))


def _pipe_command(*texts: str) -> SimpleCommand:
    return SimpleCommand(tuple(map(Word, texts)), texts, joint="|")


def _resolvers() -> Sequence[SimpleCommand]:
    """Return commands that resolve each name and drop those outside the folder or with secrets."""
    files = "|".join(SECRET_FILES).replace(".", "[.]").replace("*", "[^/]*")
    folders = "|".join(SECRET_FOLDERS).replace(".", "[.]")
    unwanted = rf"^/|(^|/)({files})$|(^|/)({folders})(/|$)|(^|/)[.]git/"
    return (
        _pipe_command("xargs", "-0", "-r", "realpath", "-e", "-z", "-q", "--relative-base=.", "--"),
        _pipe_command("grep", "-a", "-z", "-v", "-i", "-E", "-e", unwanted),
    )


def _passes_whole(command: SimpleCommand, proof: Proof) -> bool:
    letters = _FILTERS[proof.name]
    if proof.files or any(not word.is_plain for word in command.words):
        return False
    return all(
        letters.fullmatch(text[1:]) is not None or (proof.name.endswith("grep") and text == "-e")
        for text in command.texts[1:]
        if text[:1] == "-"
    )


def _add_option(command: SimpleCommand, option: str) -> SimpleCommand:
    has_it = any(option[1] in text[1:] for text in command.texts[1:] if re.fullmatch("-[A-Za-z0-9]+", text))
    words = command.words
    return command if has_it else replace_words(command, (*words[:1], Word(option), *words[1:]))


def _giver(command: SimpleCommand, proof: Proof) -> SimpleCommand | None:
    texts = command.texts
    given = [text for text in texts[1:] if text[:1] == "-"]
    if proof.name == "find" and texts[0] in ("find", "gfind"):
        return _find_giver(command)
    if proof.name == "rg":
        is_list = "--files" in texts or "--files-with-matches" in texts or any("l" in text for text in given)
        known = (
            text in _RG_NAMES
            or text[:2] in ("-g", "-t")
            or text[:6] in ("--glob", "--type")
            or _LIST_BY_RG.fullmatch(text[1:])
            for text in given
        )
        return _add_option(command, "-0") if is_list and all(known) else None
    if proof.name in ("grep", "egrep", "fgrep"):
        letters = "".join(text[1:] for text in given if text[:2] != "--")
        known = (text.startswith(("--include=", "--exclude")) or _LIST_BY_GREP.fullmatch(text[1:]) for text in given)
        if not {"r", "l"} <= set(letters) or not all(known):
            return None
        words = _add_option(command, "-Z").words
        return replace_words(command, (*words[:1], Word("--exclude-dir=.git"), *words[1:]))
    return None


def _find_giver(command: SimpleCommand) -> SimpleCommand | None:
    """Return a `find` command that omits links and files with secrets when it prints."""
    words, texts = list(command.words), command.texts
    if texts[-1] in ("-print", "-print0"):
        words, is_printed = words[:-1], True
    else:
        is_printed = False
    left = {word.text for word in words}
    if left & (_FIND_ACTIONS - {"-prune"}) or "-depth" in left:
        return None
    if not is_printed and ("-prune" in left or _has_alternatives(words)):
        return None  # a further test would apply only to the last alternative
    return replace_words(command, (*words, *map(Word, (*_NOT_LINKS, *_secret_tests(), "-print0"))))


def _has_alternatives(words: Sequence[Word]) -> bool:
    """Whether an expression of find has alternatives outside parentheses."""
    depth = 0
    for word in words:
        depth += (word.text == "(") - (word.text == ")")
        if word.text in _EITHER and depth < 1:
            return True
    return False


def split_exec(command: SimpleCommand) -> tuple[SimpleCommand, Sequence[Word], int] | None:
    """Split `find … -exec PROGRAM … {} +` (or `;`) into find without it, the program's words, and their index. None for
    any other call."""
    texts = command.texts
    if texts[0] not in ("find", "gfind") or texts.count("-exec") != 1 or texts[-1] not in ("+", ";"):
        return None
    at = texts.index("-exec")
    inner = command.words[at + 1 : -1]
    if len(inner) < 2 or inner[-1].text != "{}" or any("{}" in word.text for word in inner[:-1]):
        return None
    return replace_words(command, command.words[:at]), inner, at


def prove_exec(inner: Sequence[Word]) -> tuple[Proof, Sequence[Word]] | None:
    """Return the proof for a program that find runs, and the tests that find needs before it so that a program that
    shows contents gets no links and no files with secrets."""
    proof = _prove_with_name(inner[:-1], SHOW_CONTENT | NAMES_ONLY)
    if proof is None:
        return None
    if inner[0].text in SHOW_CONTENT:
        return proof, tuple(map(Word, (*_NOT_LINKS, *_secret_tests())))
    follows = inner[0].text == "ls" and not any(_SAFE_LISTING.fullmatch(word.text) for word in inner[1:-1])
    return proof, tuple(map(Word, _NOT_LINKS)) if follows else ()


def add_dashes(command: SimpleCommand, is_name: "re.Pattern[str]") -> SimpleCommand:
    """Insert `--` before the first word that may expand to names starting with a dash. The command is unchanged if an
    option follows, or if the program does not accept `--`."""
    name = OTHER_NAMES.get(command.texts[0], command.texts[0])
    first = next(
        (
            at
            for at, word in enumerate(command.words)
            if at and ((word.globs and word.text[:1] in "*?[") or is_name.fullmatch(word.text))
        ),
        0,
    )
    if not first or name not in TAKE_DASHES or "--" in command.texts:
        return command
    if any(text[:1] == "-" for text in command.texts[first:]) or not _is_whole(command.words[:first]):
        return command
    return replace_words(command, (*command.words[:first], Word("--"), *command.words[first:]))


def ends_options(words: Sequence[Word], at: int) -> bool:
    """Whether `--` precedes a word, and is not the value of an option."""
    dashes = next((place for place in range(1, at) if words[place].text == "--"), 0)
    return dashes > 0 and _is_whole(words[:dashes])


TAKE_DASHES = (
    SHOW_CONTENT
    | NAMES_ONLY - {"echo"}
    | set_of("rg tac uniq comm cmp diff md5sum sha1sum sha256sum sha512sum cksum paste rev")
)
"""Programs that read no options after `--`."""


def replace_words(command: SimpleCommand, words: Sequence[Word]) -> SimpleCommand:
    return replace(command, words=tuple(words), texts=tuple(word.text for word in words))
