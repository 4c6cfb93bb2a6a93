"""The files that a command line names, and whether it reads or changes them, judged by its text. Pure. How a program
derives further file names is not visible here."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from ebbtide.tools.commands.command_line import Redirection, SimpleCommand, Word
from ebbtide.tools.commands.dangers import LANGUAGES, runs_texts
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.nested import (
    MAX_TEXT_CHARS,
    TextBudget,
    alternatives,
    behind_assignments,
    program_of,
    texts_in,
    values_in,
    with_values,
    wrapped_at,
)
from ebbtide.tools.commands.programs import set_of
from ebbtide.tools.commands.proof import check_read_only
from ebbtide.tools.commands.scripts import Proof, writes_archive
from ebbtide.tools.lazy import dataclass, regex

_NAMES_ONLY = set_of(
    "echo printf test true false : ls stat file du df find fd tree basename dirname realpath readlink mkdir rmdir which"
    " type command cd pushd kill pkill export unset"
)
"""Programs whose arguments are printed or looked up, but not shown."""
_COPIERS = set_of("cp mv ln install rsync scp")
"""Programs whose last argument is the destination."""
_CHANGERS = set_of("tee sponge mkfifo mknod script touch truncate rm unlink shred chmod chown patch ed ex vi vim nano")
AWKS = ("awk", "gawk", "mawk", "nawk")
IN_PLACE = set_of("sed perl ruby gawk awk yq")
"""Programs that change files with a certain option."""
_OUTPUT = regex(
    r"(?P<name>--(?:out[a-z-]*|log-file|trace|trace-ascii|cookie-jar|stderr|dump-header|etag-save|libcurl|hsts|alt-svc"
    r"|save-cookies|append-output|rejected-log|export-marks|index-output)|-out)(?:=(?P<value>.+))?|-[A-Za-z]*?[oO](?P<joined>.+)?",
    re.DOTALL,
)
"""Options that name an output file. Read-only programs use the same letters for other purposes."""
_O_IS_ELSE = set_of("grep egrep fgrep rg ls ps ssh scp sftp mount pytest python python3 kubectl set")
"""Programs for which those letters mean something else."""
_INTO = {
    "unzip": ("-d",), "wget": ("-P", "--directory-prefix"), "pip": ("-t", "--target"), "pip3": ("-t", "--target"),
    "tar": ("-C", "--directory"),
}  # fmt: skip
"""Options that name a destination folder."""
_FIND_WRITES = ("-fprint", "-fprint0", "-fprintf", "-fls")
_WRITTEN_BY_SCRIPT = {"sed": regex(r"[wW][ \t]*([^\s;}]+)"), **dict.fromkeys(AWKS, regex(r'>[ \t]*"([^"]+)"'))}
"""Output files in sed and awk scripts."""
_SECOND_IS_WRITTEN = set_of("uniq xxd objcopy")
_ARROWS = tuple(regex(sign + r"[>|&]*[ \t]*[\"']?([^\s<>|&;\"'()]+)") for sign in "><")
_MAX_ARROWS = 200
"""Maximum number of redirections of each kind examined in a line that cannot be parsed."""
_MAX_FILES = 500
"""Maximum number of names reported. Lines that are short enough to be parsed rarely have more."""
_MAX_DEPTH = 3


@dataclass(frozen=True, slots=True)
class NamedFile:
    path: str
    """As written, relative to the folder that the line has changed to."""
    changes: bool = False
    globs: bool = False
    is_sure: bool = False
    """Whether it is known to be a file that is read, and not just a word that may be one."""
    folder: str = ""
    """A word that must be a folder for this path to be the one meant."""


def named_files(text: str) -> tuple[NamedFile, ...]:
    """Return the files that a line names, without duplicates. If the line cannot be parsed, only the files of its
    redirections."""
    return all_named_files(text)[0]


def all_named_files(text: str) -> tuple[tuple[NamedFile, ...], bool]:
    """Return the same files, and whether they are all that the text shows: everything that runs could be parsed."""
    if parse_command_line(text).is_broken:
        found = (one for arrow in _ARROWS for one in islice(arrow.finditer(text), _MAX_ARROWS))
        return tuple(dict.fromkeys(NamedFile(one[1], one[0][0] == ">") for one in found)), False
    budget = TextBudget(text)
    files = tuple(islice(dict.fromkeys(_find_named_files(text, budget)), _MAX_FILES))
    return files, not (budget.is_spent or budget.leaves_some)


def gives_names_on(text: str) -> bool:
    """Whether programs in a line receive names that are printed by others: `echo .env | xargs cat`."""
    line = parse_command_line(text)
    programs = {program_of(command.texts) for command in line.commands}
    runs_found = "find" in programs and any(sign in text for sign in ("-exec", "-ok"))
    return runs_found or not programs.isdisjoint(("xargs", "parallel")) or line.has_loop


def _find_named_files(text: str, budget: TextBudget, depth: int = 0) -> Iterator[NamedFile]:
    line, place, values = parse_command_line(text), "", {"HOME": "~", "PWD": "."}
    for one in line.redirections:
        yield from _redirected_files(one, place, values)
    for command in line.commands:
        values |= values_in(command)
        for one in command.redirections:
            yield from _redirected_files(one, place, values)
        words = tuple(
            each for word in command.words[behind_assignments(command.texts) :] for each in _expand_word(word, values)
        )
        for word in words[1:] if runs_texts(command) else ():
            if not word.is_bare:
                inner = budget.take(texts_in(word.text)) if depth < _MAX_DEPTH else ()
                is_read = depth < _MAX_DEPTH and len(word.text) <= MAX_TEXT_CHARS and not any(map(_is_broken, inner))
                budget.leaves_some |= not is_read and program_of(command.texts) not in LANGUAGES
                for each in inner:
                    yield from _find_named_files(each, budget, depth + 1)
        yield from (_within(place, file) for file in _of_command(words)) if place else _of_command(words)
        place = entered_folder(command, place)


def _is_broken(text: str) -> bool:
    return parse_command_line(text).is_broken


def _within(place: str, file: NamedFile) -> NamedFile:
    folder = file.folder and posixpath.join(place, file.folder)
    return replace(file, path=posixpath.join(place, file.path), folder=folder)


def _expand_word(word: Word, values: Mapping[str, str]) -> Sequence[Word]:
    """Return the shell's expansions of a word, as far as the line itself determines them."""
    if not word.expands:
        return (word,)
    text = with_values(word.text, values)
    texts = alternatives(text) if "{" in text else (text,)
    return [replace(word, text=each, expands="$" in each or "`" in each) for each in texts]


def _redirected_files(one: Redirection, place: str, values: Mapping[str, str]) -> Iterator[NamedFile]:
    if one.sign in ("<", ">", ">>", ">|", "&>", "&>>", "<>"):
        for target in _expand_word(one.target, values):
            if not target.expands or one.sign != "<":
                yield NamedFile(posixpath.join(place, target.text), one.sign != "<", target.globs)


def entered_folder(command: SimpleCommand, place: str) -> str:
    given = [word for word in command.texts[1:] if word[:1] != "-"]
    return posixpath.join(place, given[0]) if command.texts[:1] in (("cd",), ("pushd",)) and len(given) == 1 else place


def _of_command(words: Sequence[Word]) -> Iterator[NamedFile]:
    texts = [word.text for word in words]
    inner, name = wrapped_at(texts), program_of(texts)
    if inner is not None:
        yield from _output_option_files(name, words[:inner], None)
        # A word before that may be an option's value or the program. It cannot be decided which.
        others = (at for at in range(1, inner) if posixpath.basename(texts[at]) in _COPIERS | _CHANGERS)
        for at in (*others, inner):
            yield from _of_command(words[at:])
        return
    if name == "find":
        told = (at + 1 for at, text in enumerate(texts[:-1]) if text in _FIND_WRITES)
        yield from (NamedFile(texts[at], changes=True) for at in told)
    if name == "tree":
        yield from _output_option_files(name, words, check_read_only(words))
    if name in ("cd", "pushd"):
        yield from (NamedFile(word.text, globs=word.globs, is_sure=True) for word in words[1:] if word.text[:1] != "-")
    if name in _NAMES_ONLY or not name:
        return
    operands = [word for word in words[1:] if word.text[:1] != "-"]
    if name == "git":
        changes = len(words) > 1 and words[1].text in ("mv", "rm")
        yield from (NamedFile(word.text, changes=True, globs=word.globs) for word in operands[1:] if changes)
    elif name == "tar":
        yield from _archive_files(words, operands)
        packed = check_read_only(words, is_fed=True)
        yield from (NamedFile(file.text, globs=file.globs, is_sure=True) for file in (packed.files if packed else ()))
    elif name in _COPIERS:
        yield from _copy_targets(words, operands)
    elif name in _CHANGERS or (name in IN_PLACE and any(is_in_place(text) for text in texts[1:])):
        yield from (NamedFile(word.text, changes=True, globs=word.globs) for word in operands)
    elif name in _SECOND_IS_WRITTEN and len(operands) > 1:
        yield NamedFile(operands[-1].text, changes=True, globs=operands[-1].globs)
    proof = check_read_only(words, is_fed=True)
    written = tuple(_output_option_files(name, words, proof))
    yield from written
    for at in proof.unproved if proof is not None and name in _WRITTEN_BY_SCRIPT else ():
        yield from (NamedFile(file, changes=True) for file in _WRITTEN_BY_SCRIPT[name].findall(texts[at]))
    if proof is not None and proof.only_looks:
        yield from (NamedFile(file.text, globs=file.globs, is_sure=True) for file in proof.files)
        # A pattern may expand to options and does expand to files.
        yield from (NamedFile(words[at].text, globs=True) for at in proof.unproved if at and words[at].globs)
    else:
        yield from (file for file in _unknown(name, words) if file.path not in {one.path for one in written})


def _copy_targets(words: Sequence[Word], operands: Sequence[Word]) -> Iterator[NamedFile]:
    """Yield the destinations: a file of that name, or files in a folder of that name."""
    told = [file for _, file in _option_values(words, ("-t", "--target-directory"))]
    targets = told or [word.text for word in operands[-1:]]
    for target in targets:
        yield NamedFile(target, changes=True, globs=any(word.globs and word.text == target for word in words))
        for word in operands:
            name = posixpath.basename(word.text.rstrip("/"))
            yield NamedFile(posixpath.join(target, name), changes=True, folder=target)
    if words[0].text in ("mv", "ln"):  # changing a file under a second name changes both
        yield from (NamedFile(word.text, changes=True, globs=word.globs) for word in operands[:-1])


def _archive_files(words: Sequence[Word], operands: Sequence[Word]) -> Iterator[NamedFile]:
    """Yield the files that tar writes: the archive, or the files it extracts."""
    first = words[1].text if len(words) > 1 else ""
    is_old, packs = first[:1] != "-", writes_archive(words)
    shows = any(re.fullmatch("-?[A-Za-z]*O[A-Za-z]*|--to-stdout", one.text) for one in words[1:])
    unpacks = (is_old and "x" in first) or any(
        re.fullmatch("-[A-Za-z]*x[A-Za-z]*|--extract", one.text) for one in words
    )
    into = next((file for _, file in _option_values(words, _INTO["tar"])), "")
    for at, word in enumerate(words[1:], 1):
        name = re.fullmatch(r"-[A-Za-z]*f(?P<joined>.+)|--file=(?P<value>.+)", word.text, re.DOTALL)
        is_archive = words[at - 1].text == "--file" or re.fullmatch("-[A-Za-z]*f", words[at - 1].text)
        if is_archive or (is_old and "f" in first and at == 2):
            yield NamedFile(word.text, changes=packs, globs=word.globs)
        elif name is not None:
            yield NamedFile(name["joined"] or name["value"], changes=packs)
        elif unpacks and not shows and word in operands:
            yield NamedFile(posixpath.join(into, word.text), changes=True, globs=word.globs)


def _output_option_files(name: str, words: Sequence[Word], proof: Proof | None) -> Iterator[NamedFile]:
    """Yield the values of options that name output files."""
    for at, file in _option_values(words, _INTO.get(name, ())):
        if not (proof is not None and proof.only_looks and at not in proof.unproved):
            yield NamedFile(file, changes=True, globs=words[at].globs)
    for at, word in enumerate(words):
        found = _OUTPUT.fullmatch(word.text) if word.text[:1] == "-" else None
        is_known = proof is not None and proof.only_looks and at not in proof.unproved
        if (
            found is None
            or is_known
            or (name in _O_IS_ELSE and not found["name"])
            or (name == "git" and "commit" in (one.text for one in words[1:at]))
        ):
            continue
        if value := found["value"] or found["joined"]:
            yield NamedFile(value.removeprefix("="), changes=True, globs=word.globs)
        elif at + 1 < len(words) and words[at + 1].text[:1] != "-":
            yield NamedFile(words[at + 1].text, changes=True, globs=words[at + 1].globs)


def _option_values(words: Sequence[Word], options: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the positions and values of options: in the next word, after `=`, or after a letter."""
    for at, word in enumerate(words[1:], 1):
        for option in options:
            if words[at - 1].text == option:
                yield at, word.text
            elif word.text.startswith(option) and len(word.text) > len(option):
                value = word.text[len(option) :]
                if option[:2] != "--" or value[0] == "=":
                    yield at, value.removeprefix("=")


def is_in_place(text: str) -> bool:
    return text.startswith(("--in-place", "-i")) or (text[:1] == "-" and text[1:2] != "-" and "i" in text[1:4])


def _unknown(name: str, words: Sequence[Word]) -> Iterator[NamedFile]:
    """Yield possible file names in the words of an unknown program: arguments and option values."""
    for word in words[1:]:
        text = word.text
        before, sign, value = text.partition("=")
        changes = name == "dd" and before == "of"
        for meant in {text, value, text.rpartition("@")[2]} if sign or "@" in text else (text,):
            if meant and meant[0] != "-" and not (" " in meant or "\n" in meant or "\t" in meant):
                yield NamedFile(meant, changes, word.globs)
