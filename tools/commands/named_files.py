"""The files that a command line names, and whether it reads or changes them, as far as its text tells. It runs nothing
and decides nothing; what a program makes of the names that it is not told cannot be seen here."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from tools.commands.command_line import Command, Redirection, Word
from tools.commands.dangers import LANGUAGES, runs_texts
from tools.commands.grammar import read
from tools.commands.nested import LONGEST_TEXT, TextBudget, behind_assignments, program_of, texts_in, wrapped_at
from tools.commands.programs import set_of
from tools.commands.proof import proof_of
from tools.lazy import dataclass, regex

_NAMES_ONLY = set_of(
    "echo printf test true false : ls stat file du df find fd tree basename dirname realpath readlink mkdir rmdir which"
    " type command cd pushd kill pkill export unset"
)
"""What stands behind them is told again, or looked up, but not shown."""
_COPIERS = set_of("cp mv ln install rsync scp")
"""Their last word is where it goes."""
_CHANGERS = set_of("tee touch truncate rm unlink shred chmod chown patch ed ex vi vim nano")
IN_PLACE = set_of("sed perl ruby gawk awk yq")
"""They change files where an option says so."""
_TO_FILE = {"curl": ("-o", "--output"), "wget": ("-O", "--output-document"), "sort": ("-o", "--output")}
_ARROWS = tuple(regex(sign + r"[>|&]*[ \t]*[\"']?([^\s<>|&;\"'()]+)") for sign in "><")
_MOST_ARROWS = 40
"""Of each kind, of a line that nobody reads to its end: one with more is asked about."""
_MOST = 500
"""Names in a line that are told: in as many characters as are read there are few more."""
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class NamedFile:
    path: str
    """As it is written, behind the folder that the line goes to before."""
    changes: bool = False
    globs: bool = False
    is_sure: bool = False
    """Whether it is known to be read, and not just a word that may be a name."""
    folder: str = ""
    """A word that has to be a folder for this to be meant."""


def named_files(text: str) -> tuple[NamedFile, ...]:
    """The files that a line names, each once. Of a line that nobody reads to its end it is those behind its arrows."""
    return all_named_files(text)[0]


def all_named_files(text: str) -> tuple[tuple[NamedFile, ...], bool]:
    """The same, and whether these are all of them as far as its text tells: all that it runs was read."""
    if read(text).is_broken:
        found = (islice(arrow.finditer(text), _MOST_ARROWS) for arrow in _ARROWS)
        return tuple(NamedFile(one[1], one[0][0] == ">") for kind in found for one in kind), False
    budget = TextBudget(text)
    files = tuple(islice(dict.fromkeys(_named(text, budget)), _MOST))
    return files, not (budget.is_spent or budget.leaves_some)


def _named(text: str, budget: TextBudget, depth: int = 0) -> Iterator[NamedFile]:
    line, place = read(text), ""
    for one in line.redirections:
        yield from _redirected(one, place)
    for command in line.commands:
        for one in command.redirections:
            yield from _redirected(one, place)
        words = command.words[behind_assignments(command.texts) :]
        for word in words[1:] if runs_texts(command) else ():
            if not word.is_bare:
                inner = budget.taken(texts_in(word.text)) if depth < _DEEPEST else ()
                is_read = depth < _DEEPEST and len(word.text) <= LONGEST_TEXT and not any(map(_is_broken, inner))
                budget.leaves_some |= not is_read and program_of(command.texts) not in LANGUAGES
                for each in inner:
                    yield from _named(each, budget, depth + 1)
        yield from (_within(place, file) for file in _of_command(words)) if place else _of_command(words)
        place = entered(command, place)


def _is_broken(text: str) -> bool:
    return read(text).is_broken


def _within(place: str, file: NamedFile) -> NamedFile:
    folder = file.folder and posixpath.join(place, file.folder)
    return replace(file, path=posixpath.join(place, file.path), folder=folder)


def _redirected(one: Redirection, place: str) -> Iterator[NamedFile]:
    if one.sign in ("<", ">", ">>", ">|", "&>", "&>>", "<>") and not one.target.expands:
        yield NamedFile(posixpath.join(place, one.target.text), one.sign != "<", one.target.globs)


def entered(command: Command, place: str) -> str:
    given = [word for word in command.texts[1:] if word[:1] != "-"]
    return posixpath.join(place, given[0]) if command.texts[:1] == ("cd",) and len(given) == 1 else place


def _of_command(words: Sequence[Word]) -> Iterator[NamedFile]:
    texts = [word.text for word in words]
    inner = wrapped_at(texts)
    if inner is not None:
        yield from _of_command(words[inner:])
        return
    name = program_of(texts)
    if name in _NAMES_ONLY or not name:
        return
    operands = [word for word in words[1:] if word.text[:1] != "-"]
    if name in _COPIERS:
        yield from _copied(words, operands)
    elif name in _CHANGERS or (name in IN_PLACE and any(is_in_place(text) for text in texts[1:])):
        yield from (NamedFile(word.text, changes=True, globs=word.globs) for word in operands)
    proof = proof_of(words, is_fed=True)
    if proof is not None and proof.only_looks:
        yield from (NamedFile(file.text, globs=file.globs, is_sure=True) for file in proof.files)
    else:
        yield from _unknown(name, words)


def _copied(words: Sequence[Word], operands: Sequence[Word]) -> Iterator[NamedFile]:
    """Where files go: to that name, or into the folder of that name."""
    told = [word.text for at, word in enumerate(words) if at and words[at - 1].text in ("-t", "--target-directory")]
    targets = told or [word.text for word in operands[-1:]]
    for target in targets:
        yield NamedFile(target, changes=True)
        for word in operands:
            name = posixpath.basename(word.text.rstrip("/"))
            yield NamedFile(posixpath.join(target, name), changes=True, folder=target)
    if words[0].text == "mv":
        yield from (NamedFile(word.text, changes=True, globs=word.globs) for word in operands[:-1])


def is_in_place(text: str) -> bool:
    return text.startswith(("--in-place", "-i")) or (text[:1] == "-" and text[1:2] != "-" and "i" in text[1:4])


def _unknown(name: str, words: Sequence[Word]) -> Iterator[NamedFile]:
    """What may be names of files in the words of a program that is not known: words, and values of options."""
    to_file, previous = _TO_FILE.get(name, ()), ""
    for word in words[1:]:
        text = word.text
        before, sign, value = text.partition("=")
        changes = before in to_file or previous in to_file or (name == "dd" and before == "of")
        for meant in {text, value, text.rpartition("@")[2]} if sign or "@" in text else (text,):
            if meant and meant[0] != "-" and not (" " in meant or "\n" in meant or "\t" in meant):
                yield NamedFile(meant, changes, word.globs)
        previous = text
