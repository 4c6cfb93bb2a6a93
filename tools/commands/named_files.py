"""Finds the files that a command line names, and whether it reads or changes them, judging by its text. File names that
a program derives from other names are not found."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from ebbtide.tools.commands.command_line import Redirection, SimpleCommand, Word
from ebbtide.tools.commands.dangers import LANGUAGE_INTERPRETERS, may_run_arguments
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.nested import (
    MAX_STRING_CHARS,
    StringBudget,
    assigned_variables,
    brace_expansions,
    expand_variables,
    possible_command_lines,
    program_index,
    program_name,
    wrapped_program_index,
)
from ebbtide.tools.commands.programs import split_words
from ebbtide.tools.commands.proof import check_read_only
from ebbtide.tools.commands.scripts import Proof, writes_archive
from ebbtide.tools.lazy import dataclass, regex

_NAME_ONLY_PROGRAMS = split_words(
    "echo printf test true false : ls stat file du df find fd tree basename dirname realpath readlink mkdir rmdir which"
    " type command cd pushd kill pkill export unset"
)
"""Programs that print or look up their arguments, but do not show the contents of files."""
_COPY_PROGRAMS = split_words("cp mv ln install rsync scp")
"""Programs whose last argument is the destination."""
_CHANGING_PROGRAMS = split_words(
    "tee sponge mkfifo mknod script touch truncate rm unlink shred chmod chown patch ed ex vi vim nano"
)
AWK_NAMES = ("awk", "gawk", "mawk", "nawk")
IN_PLACE_EDITORS = split_words("sed perl ruby gawk awk yq")
"""Programs that edit files in place with an option such as `-i`."""
_OUTPUT_OPTION = regex(
    r"(?P<name>--(?:out[a-z-]*|log-file|trace|trace-ascii|cookie-jar|stderr|dump-header|etag-save|libcurl|hsts|alt-svc"
    r"|save-cookies|append-output|rejected-log|export-marks|index-output)|-out)(?:=(?P<value>.+))?|-[A-Za-z]*?[oO](?P<joined>.+)?",
    re.DOTALL,
)
"""Matches options that name an output file. Some read-only programs use the same letters for other purposes."""
_O_HAS_OTHER_MEANING = split_words("grep egrep fgrep rg ls ps ssh scp sftp mount pytest python python3 kubectl set")
"""Programs for which `-o` and `-O` mean something else."""
_DESTINATION_OPTIONS = {
    "unzip": ("-d",), "wget": ("-P", "--directory-prefix"), "pip": ("-t", "--target"), "pip3": ("-t", "--target"),
    "tar": ("-C", "--directory"),
}  # fmt: skip
"""Options that name a destination folder."""
_FIND_OUTPUT_OPTIONS = ("-fprint", "-fprint0", "-fprintf", "-fls")
_WRITTEN_BY_AWK = regex(r'(?:print(?:[^;}"p]|p(?!rint)|"(?:[^"\\]|\\.)*")*>[ \t]*"|>[ \t]*"(?=[^"]*[./]))([^"]+)"')
_WRITTEN_BY_SCRIPT = {"sed": regex(r"[wW][ \t]*([^\s;}]+)"), **dict.fromkeys(AWK_NAMES, _WRITTEN_BY_AWK)}
"""Patterns for output files in sed and awk scripts."""
_LAST_OPERAND_WRITERS = split_words("uniq xxd objcopy")
_REDIRECTION_PATTERNS = tuple(regex(arrow + r"[>|&]*[ \t]*[\"']?([^\s<>|&;\"'()]+)") for arrow in "><")
_MAX_REDIRECTIONS = 200
"""Maximum number of redirections examined per direction, in a line that cannot be parsed."""
_MAX_FILES = 500
"""Maximum number of files returned. Lines short enough to be parsed rarely name more."""
_MAX_DEPTH = 3


@dataclass(frozen=True, slots=True)
class NamedFile:
    path: str
    """The path as written. If the line has changed to a folder, the path is joined to it."""
    is_changed: bool = False
    is_glob: bool = False
    is_certain: bool = False
    """Whether this is certainly a file that is read, not just a word that might name a file."""
    required_folder: str = ""
    """The path matters only if this destination folder exists. Empty if there is no such condition."""


def find_named_files(text: str) -> tuple[NamedFile, ...]:
    """Find the files that a line names, without duplicates. If the line cannot be parsed, only files in redirections
    are found."""
    return find_all_named_files(text)[0]


def find_all_named_files(text: str) -> tuple[tuple[NamedFile, ...], bool]:
    """Like `find_named_files`, but also return whether the result is complete. It is complete if everything that the
    line runs could be parsed."""
    if parse_command_line(text).is_unparsable:
        matches = (
            match for pattern in _REDIRECTION_PATTERNS for match in islice(pattern.finditer(text), _MAX_REDIRECTIONS)
        )
        return tuple(dict.fromkeys(NamedFile(match[1], match[0][0] == ">") for match in matches)), False
    budget = StringBudget(text)
    files = tuple(islice(dict.fromkeys(_find_named_files(text, budget)), _MAX_FILES))
    return files, not (budget.is_spent or budget.has_unparsed_text)


def passes_printed_names(text: str) -> bool:
    """Whether programs in the line receive names that other programs print, as in `echo .env | xargs cat`."""
    line = parse_command_line(text)
    programs = {program_name(command.texts) for command in line.commands}
    runs_found_files = "find" in programs and any(option in text for option in ("-exec", "-ok"))
    return runs_found_files or not programs.isdisjoint(("xargs", "parallel")) or line.has_loop


def _find_named_files(text: str, budget: StringBudget, depth: int = 0) -> Iterator[NamedFile]:
    line, folder, values = parse_command_line(text), "", {"HOME": "~", "PWD": "."}
    for redirection in line.redirections:
        yield from _redirected_files(redirection, folder, values)
    for command in line.commands:
        values |= assigned_variables(command)
        for redirection in command.redirections:
            yield from _redirected_files(redirection, folder, values)
        words = tuple(
            expanded
            for word in command.words[program_index(command.texts) :]
            for expanded in _expand_word(word, values)
        )
        for word in words[1:] if may_run_arguments(command) else ():
            if not word.is_unquoted:
                inner_lines = budget.take_texts(possible_command_lines(word.text)) if depth < _MAX_DEPTH else ()
                was_parsed = (
                    depth < _MAX_DEPTH
                    and len(word.text) <= MAX_STRING_CHARS
                    and not any(parse_command_line(line).is_unparsable for line in inner_lines)
                )
                budget.has_unparsed_text |= not was_parsed and program_name(command.texts) not in LANGUAGE_INTERPRETERS
                for inner_line in inner_lines:
                    yield from _find_named_files(inner_line, budget, depth + 1)
        yield from (
            (_join_to_folder(folder, file) for file in _find_files_of_command(words))
            if folder
            else _find_files_of_command(words)
        )
        folder = entered_folder(command, folder)


def _join_to_folder(folder: str, file: NamedFile) -> NamedFile:
    required_folder = file.required_folder and posixpath.join(folder, file.required_folder)
    return replace(file, path=posixpath.join(folder, file.path), required_folder=required_folder)


def _expand_word(word: Word, values: Mapping[str, str]) -> Sequence[Word]:
    """Expand a word as the shell would, as far as the line itself allows."""
    if not word.has_expansion:
        return (word,)
    text = expand_variables(word.text, values)
    texts = brace_expansions(text) if "{" in text else (text,)
    return [
        replace(word, text=expanded_text, has_expansion="$" in expanded_text or "`" in expanded_text)
        for expanded_text in texts
    ]


def _redirected_files(redirection: Redirection, folder: str, values: Mapping[str, str]) -> Iterator[NamedFile]:
    if redirection.operator in ("<", ">", ">>", ">|", "&>", "&>>", "<>"):
        for target in _expand_word(redirection.target, values):
            if not target.has_expansion or redirection.operator != "<":
                yield NamedFile(posixpath.join(folder, target.text), redirection.operator != "<", target.is_glob)


def entered_folder(command: SimpleCommand, folder: str) -> str:
    operands = [word for word in command.texts[1:] if word[:1] != "-"]
    return (
        posixpath.join(folder, operands[0])
        if command.texts[:1] in (("cd",), ("pushd",)) and len(operands) == 1
        else folder
    )


def _find_files_of_command(words: Sequence[Word]) -> Iterator[NamedFile]:
    texts = [word.text for word in words]
    wrapped_index, name = wrapped_program_index(texts), program_name(texts)
    if wrapped_index is not None:
        yield from _output_option_files(name, words[:wrapped_index], None)
        # An earlier word may be an option's value, or it may be the program itself. There is no way to tell, so assume
        # both.
        possible_indices = (
            index
            for index in range(1, wrapped_index)
            if posixpath.basename(texts[index]) in _COPY_PROGRAMS | _CHANGING_PROGRAMS
        )
        for index in (*possible_indices, wrapped_index):
            yield from _find_files_of_command(words[index:])
        return
    if name == "find":
        output_indices = (index + 1 for index, text in enumerate(texts[:-1]) if text in _FIND_OUTPUT_OPTIONS)
        yield from (NamedFile(texts[index], is_changed=True) for index in output_indices)
    if name == "tree":
        yield from _output_option_files(name, words, check_read_only(words))
    if name in ("cd", "pushd"):
        yield from (
            NamedFile(word.text, is_glob=word.is_glob, is_certain=True) for word in words[1:] if word.text[:1] != "-"
        )
    if name in _NAME_ONLY_PROGRAMS or not name:
        return
    operands = [word for word in words[1:] if word.text[:1] != "-"]
    if name == "git":
        is_changing = len(words) > 1 and words[1].text in ("mv", "rm")
        yield from (NamedFile(word.text, is_changed=True, is_glob=word.is_glob) for word in operands[1:] if is_changing)
    elif name == "tar":
        yield from _archive_files(words, operands)
        archive_proof = check_read_only(words, has_input=True)
        yield from (
            NamedFile(file.text, is_glob=file.is_glob, is_certain=True)
            for file in (archive_proof.files if archive_proof else ())
        )
    elif name in _COPY_PROGRAMS:
        yield from _copy_targets(words, operands)
    elif name in _CHANGING_PROGRAMS or (
        name in IN_PLACE_EDITORS and any(is_in_place_option(text) for text in texts[1:])
    ):
        yield from (NamedFile(word.text, is_changed=True, is_glob=word.is_glob) for word in operands)
    elif name in _LAST_OPERAND_WRITERS and len(operands) > 1:
        yield NamedFile(operands[-1].text, is_changed=True, is_glob=operands[-1].is_glob)
    proof = check_read_only(words, has_input=True)
    output_files = tuple(_output_option_files(name, words, proof))
    yield from output_files
    for index in proof.unproved_indices if proof is not None and name in _WRITTEN_BY_SCRIPT else ():
        yield from (NamedFile(file, is_changed=True) for file in _WRITTEN_BY_SCRIPT[name].findall(texts[index]))
    if proof is not None and proof.is_read_only_program:
        yield from (NamedFile(file.text, is_glob=file.is_glob, is_certain=True) for file in proof.files)
        # A pattern that might expand to options also names files.
        yield from (
            NamedFile(words[index].text, is_glob=True)
            for index in proof.unproved_indices
            if index and words[index].is_glob
        )
    else:
        yield from (
            file
            for file in _possible_files(name, words)
            if file.path not in {output_file.path for output_file in output_files}
        )


def _copy_targets(words: Sequence[Word], operands: Sequence[Word]) -> Iterator[NamedFile]:
    """Yield the files that a copy might write. The destination may be a file, or a folder that receives the files."""
    folders = [file for _, file in _option_values(words, ("-t", "--target-directory"))]
    targets = folders or [word.text for word in operands[-1:]]
    for target in targets:
        yield NamedFile(target, is_changed=True, is_glob=any(word.is_glob and word.text == target for word in words))
        for word in operands:
            name = posixpath.basename(word.text.rstrip("/"))
            yield NamedFile(posixpath.join(target, name), is_changed=True, required_folder=target)
    if words[0].text in ("mv", "ln"):  # a later change through one name also affects the other
        yield from (NamedFile(word.text, is_changed=True, is_glob=word.is_glob) for word in operands[:-1])


def _archive_files(words: Sequence[Word], operands: Sequence[Word]) -> Iterator[NamedFile]:
    """Yield the files that tar writes: the archive, or the extracted files."""
    first = words[1].text if len(words) > 1 else ""
    is_undashed, creates_archive = first[:1] != "-", writes_archive(words)
    prints_content = any(re.fullmatch("-?[A-Za-z]*O[A-Za-z]*|--to-stdout", word.text) for word in words[1:])
    extracts = (is_undashed and "x" in first) or any(
        re.fullmatch("-[A-Za-z]*x[A-Za-z]*|--extract", word.text) for word in words
    )
    destination = next((file for _, file in _option_values(words, _DESTINATION_OPTIONS["tar"])), "")
    for index, word in enumerate(words[1:], 1):
        file_match = re.fullmatch(r"-[A-Za-z]*f(?P<joined>.+)|--file=(?P<value>.+)", word.text, re.DOTALL)
        is_archive = words[index - 1].text == "--file" or re.fullmatch("-[A-Za-z]*f", words[index - 1].text)
        if is_archive or (is_undashed and "f" in first and index == 2):
            yield NamedFile(word.text, is_changed=creates_archive, is_glob=word.is_glob)
        elif file_match is not None:
            yield NamedFile(file_match["joined"] or file_match["value"], is_changed=creates_archive)
        elif extracts and not prints_content and word in operands:
            yield NamedFile(posixpath.join(destination, word.text), is_changed=True, is_glob=word.is_glob)


def _output_option_files(name: str, words: Sequence[Word], proof: Proof | None) -> Iterator[NamedFile]:
    """Yield the values of options that name output files."""
    for index, file in _option_values(words, _DESTINATION_OPTIONS.get(name, ())):
        if not (proof is not None and proof.is_read_only_program and index not in proof.unproved_indices):
            yield NamedFile(file, is_changed=True, is_glob=words[index].is_glob)
    for index, word in enumerate(words):
        match = _OUTPUT_OPTION.fullmatch(word.text) if word.text[:1] == "-" else None
        is_proved = proof is not None and proof.is_read_only_program and index not in proof.unproved_indices
        if (
            match is None
            or is_proved
            or (name in _O_HAS_OTHER_MEANING and not match["name"])
            or (name == "git" and "commit" in (word.text for word in words[1:index]))
        ):
            continue
        if value := match["value"] or match["joined"]:
            yield NamedFile(value.removeprefix("="), is_changed=True, is_glob=word.is_glob)
        elif index + 1 < len(words) and words[index + 1].text[:1] != "-":
            yield NamedFile(words[index + 1].text, is_changed=True, is_glob=words[index + 1].is_glob)


def _option_values(words: Sequence[Word], options: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the index and value of each of the options in the command. The value may be the next word, follow `=`, or
    directly follow the option letter."""
    for index, word in enumerate(words[1:], 1):
        for option in options:
            if words[index - 1].text == option:
                yield index, word.text
            elif word.text.startswith(option) and len(word.text) > len(option):
                value = word.text[len(option) :]
                if option[:2] != "--" or value[0] == "=":
                    yield index, value.removeprefix("=")


def is_in_place_option(text: str) -> bool:
    return text.startswith(("--in-place", "-i")) or (text[:1] == "-" and text[1:2] != "-" and "i" in text[1:4])


def _possible_files(name: str, words: Sequence[Word]) -> Iterator[NamedFile]:
    """Yield the words of an unknown program that may be file names: its arguments and the values of its options."""
    for word in words[1:]:
        text = word.text
        name_before_equals, equals, value = text.partition("=")
        is_output = name == "dd" and name_before_equals == "of"
        for candidate in {text, value, text.rpartition("@")[2]} if equals or "@" in text else (text,):
            if candidate and candidate[0] != "-" and not (" " in candidate or "\n" in candidate or "\t" in candidate):
                yield NamedFile(candidate, is_output, word.is_glob)


def files_edited_in_place(text: str) -> tuple[str, ...]:
    """Return the words that might name files edited in place, without duplicates, joined to the folder that the line
    changes to. Empty if any of them is a pattern, or if the line cannot be parsed."""
    line = parse_command_line(text)
    paths, folder = dict[str, None](), ""
    for command in line.commands if not line.is_unparsable else ():
        words = command.words[program_index(command.texts) :]
        wrapped_index = wrapped_program_index([word.text for word in words])
        words = words[wrapped_index:] if wrapped_index is not None else words
        texts = [word.text for word in words]
        if program_name(texts) in IN_PLACE_EDITORS and any(map(is_in_place_option, texts[1:])):
            if any(word.is_unquoted and not word.is_plain for word in words[1:]):
                return ()
            paths |= {posixpath.join(folder, argument): None for argument in texts[1:] if not argument.startswith("-")}
        folder = entered_folder(command, folder)
    return tuple(paths)
