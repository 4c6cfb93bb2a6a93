"""Proves that every command of a line is read-only, including those in groups, loops and substitutions. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.given_names import (
    NAMES_ONLY,
    SHOW_CONTENT,
    Givers,
    add_dashes,
    ends_options,
    find_givers,
    lists_files,
    prove_content_xargs,
    prove_exec,
    prove_names_xargs,
    replace_words,
    split_exec,
)
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.parts import MARK, Names, Part, Parts
from ebbtide.tools.commands.programs import VERSIONS, set_of
from ebbtide.tools.commands.proof import check_read_only
from ebbtide.tools.commands.scripts import Operand, Proof
from ebbtide.tools.lazy import dataclass, regex

_SHELL_OPTIONS = regex(r"(?:(?:[-+][eux]+o?|-o)(?: pipefail)?)(?: (?:[-+][eux]+o?|-o)(?: pipefail)?)*")
_TAKE_NUMBERS = {"echo", "printf", "test"}
_READ_STREAMS = SHOW_CONTENT | set_of("wc diff comm cmp paste tac md5sum sha1sum sha256sum")
"""Programs that only read what they are given in place of a file."""
PRINT = {"echo", "printf"}
"""Programs that print any number of arguments."""
TAKE_LISTS = NAMES_ONLY - {"echo", "basename", "dirname"}
_TAKE_PATTERNS = set_of("grep egrep fgrep rg")
_COMPARE = set_of("= == != -eq -ne -gt -ge -lt -le")
_ASK_ABOUT_TEXT, _ASK_ABOUT_FILE = {"-n", "-z"}, set_of("-f -d -e -s -r -w -x -L -h")
_NPM_LIST = regex(
    r"(?: (?:--depth[= ][0-9]{1,3}|-a|--all|--json|-l|--long|--parseable|--prod(?:uction)?|--omit=dev"
    r"|[@a-z0-9][\w@./^~-]*))*"
)
_NPM_FILES = ("package.json", "package-lock.json", "npm-shrinkwrap.json", "node_modules/.package-lock.json")
_EXIT = regex("[0-9]{1,3}")
_MOVES = regex(r"\bcd\b")
_STATEMENTS = {"group", "subshell", "loop", "words"}
_IN_THIS_SHELL = {"group", "loop", "words"}
_SETTINGS = regex(
    r"(?:LC_(?:ALL|COLLATE|CTYPE|MESSAGES|NUMERIC|TIME)|LANG|LANGUAGE)=(?:C|POSIX|(?:C|en_US)\.(?:UTF-8|utf8))"
    r"|TZ=(?:UTC|[A-Z][A-Za-z]{1,20}/[A-Z][A-Za-z_]{1,20})|NO_COLOR=1|COLUMNS=[0-9]{1,4}|(?:GIT_)?PAGER=cat"
)
"""Assignments that may precede a read-only command."""
_MAX_LINES = 400
"""Maximum number of lines within a line: a loop counts one for each of its words."""
_MAX_DEPTH = 5
"""Maximum nesting depth of parts."""


@dataclass(frozen=True, slots=True)
class ProvedPart:
    kind: str
    around: tuple[str, ...]
    lines: tuple["tuple[ProvedStep, ...]", ...] = ()
    is_quoted: bool = True


@dataclass(frozen=True, slots=True)
class ProvedStep:
    """A command of a line, as it is run."""

    command: SimpleCommand
    proof: Proof
    parts: Mapping[str, ProvedPart]
    """The parts in its words, by mark."""
    settings: tuple[str, ...] = ()
    """Assignments before it."""

    @property
    def is_group(self) -> bool:
        return self.proof.name == "group"


def all_steps(steps: Sequence[ProvedStep]) -> Iterator[ProvedStep]:
    """Yield the steps, and recursively those of their parts."""
    for step in steps:
        yield step
        for part in step.parts.values():
            for line in part.lines:
                yield from all_steps(line)


def _no_names(_: str) -> Sequence[str]:
    return ()


def prove_line(text: str, sign: str, names: Names = _no_names) -> tuple[ProvedStep, ...]:
    """Return the commands of a line if each of them is read-only, or an empty tuple.

    `sign`: 16 random hexadecimal digits for the marks. `names` expands a pattern to files, in order.
    """
    is_moved = _MOVES.search(text) is not None  # patterns expand differently in another folder
    return _Prover(Parts(_no_names if is_moved else names, sign), is_moved=is_moved).line(text, 0)


class _Prover:
    """Proves the commands of one line, and of the lines in its parts."""

    def __init__(self, parts: Parts, *, is_moved: bool) -> None:
        self.parts = parts
        self.is_moved = is_moved
        """Whether the line may change the folder."""
        self.left = _MAX_LINES
        self.guarded_names: set[str] = set()
        """Marks of variables that hold file names, with links and files with secrets excluded."""
        self.names: set[str] = set()
        """Marks of variables that hold file names."""
        self.variables: tuple[str, ...] = ()
        """Variables of the enclosing loops. Inner loops must not set them again, since marks record what they hold."""

    def line(self, text: str, depth: int, kind: str = "") -> tuple[ProvedStep, ...]:
        self.left -= 1
        if self.left < 0:
            return ()
        line, steps = parse_command_line(text), list[ProvedStep]()
        if line.problem and depth < _MAX_DEPTH:
            line = parse_command_line(self.parts.take_out(text))
        for command in () if line.problem else line.commands:
            if not self.add(without_command(command), steps, depth):
                return ()
        moves = bool(steps) and steps[0].proof.name == "cd"
        if moves and (kind in _IN_THIS_SHELL or not _keeps_to_looks(steps)):
            return ()  # commands after a group would also run in that folder
        return tuple(steps)

    def add(self, command: SimpleCommand, steps: list[ProvedStep], depth: int) -> bool:
        """Add a command to the steps before it, and return whether it is proved."""
        if command.texts[0] in self.parts.found:
            return self.add_group(command, steps, depth)
        if command.texts[0] == "cd" and not self.is_moved:
            return False
        settings = tuple(takewhile(_SETTINGS.fullmatch, command.texts[:-1]))
        if settings and all(word.is_plain and word.is_bare for word in command.words[: len(settings)]):
            bare = replace_words(command, command.words[len(settings) :])
            if bare.texts[0] in ("cd", *self.parts.found) or not self.add(bare, steps, depth):
                return False
            steps[-1] = replace(steps[-1], settings=settings)
            return True
        before = [(step.command, step.proof) for step in steps]
        executed = split_exec(command)
        given = None if self.is_moved else prove_content_xargs(command, before)
        if executed is not None:
            return self.add_executed(command, executed, steps)
        if given is not None:
            givers, command, proof = given
            _replace_givers(steps, givers)
            proof.shows_found = True
        else:
            command = add_dashes(command, MARK)
            found = prove_command(command, before)
            if found is None:
                return False
            proof = found
        return self.add_with_parts(command, proof, steps, depth)

    def add_executed(
        self, command: SimpleCommand, executed: tuple[SimpleCommand, Sequence[Word], int], steps: list[ProvedStep]
    ) -> bool:
        finder, inner, at = executed
        proof, shown = prove_command(finder, [(step.command, step.proof) for step in steps]), prove_exec(inner)
        texts = (*command.texts, *(one.target.text for one in command.redirections))
        if proof is None or shown is None or any(map(MARK.search, texts)):
            return False
        if shown[1] and self.is_moved:
            return False
        proof.files += shown[0].files
        proof.shows_found = inner[0].text in SHOW_CONTENT
        words = (*command.words[:at], *shown[1], *command.words[at:])
        steps.append(ProvedStep(replace_words(command, words), proof, {}))
        return True

    def add_group(self, command: SimpleCommand, steps: list[ProvedStep], depth: int) -> bool:
        part = self.parts.found[command.texts[0]]
        if part.kind not in _STATEMENTS or len(command.words) != 1:
            return False
        values = {f"${name}" for name in part.names}
        own = {mark for mark in MARK.findall(part.lines[-1]) if self.parts.found[mark].around[0] in values}
        if part.kind == "words":
            inner = self.line(part.lines[0], depth + 1)
            self.names |= own if _lists_files(inner) else set()
        if part.kind != "loop":
            return self.add_part(command, part, steps, depth)
        if not (command.is_fed or any(one.sign == "<" for one in command.redirections)):
            return False
        before = [(step.command, step.proof) for step in steps]
        self.names |= own if command.joint == "|" and lists_files(before) else set()
        if self.add_part(command, part, steps, depth):
            return True
        givers = find_givers(before) if command.joint == "|" and not command.redirections else None
        if self.is_moved or givers is None or len(part.names) != 1:
            return False
        self.guarded_names |= own
        loop = replace(part, around=(f"while IFS= read -r -d '' {part.names[0]}\ndo ", "\ndone"))
        copies = list(steps)
        _replace_givers(copies, givers)
        if not self.add_part(command, loop, copies, depth):
            return False
        steps[:] = copies
        return True

    def add_part(self, command: SimpleCommand, part: Part, steps: list[ProvedStep], depth: int) -> bool:
        if not set(part.names).isdisjoint(self.variables):
            return False
        outer, self.variables = self.variables, (*self.variables, *part.names)
        proved = self.prove_part(part, depth)
        self.variables = outer
        if proved is None:
            return False
        files = [Operand(one.target.text, 1) for one in command.redirections if one.sign == "<"]
        proof = Proof("group", files=files)
        return self.add_with_parts(command, proof, steps, depth, {command.texts[0]: proved})

    def prove_part(self, part: Part, depth: int) -> ProvedPart | None:
        lines = tuple(self.line(line, depth + 1, part.kind) for line in part.lines)
        return ProvedPart(part.kind, part.around, lines, part.is_quoted) if all(lines) else None

    def add_with_parts(
        self,
        command: SimpleCommand,
        proof: Proof,
        steps: list[ProvedStep],
        depth: int,
        parts: Mapping[str, ProvedPart] | None = None,
    ) -> bool:
        """Add a command if every part in its words is harmless there."""
        found = dict(parts or {})
        texts = (*command.texts, *(one.target.text for one in command.redirections))
        for mark in {mark for text in texts for mark in MARK.findall(text)} - set(found):
            part = self.parts.found.get(mark)
            proved = self.prove_part(part, depth) if part is not None else None
            if proved is None:
                return False
            found[mark] = proved
        for at, word in enumerate(command.words):
            marks = MARK.findall(word.text)
            if at == 0 and parts:
                continue
            for mark in marks:
                if word.globs or not self.may_stand(mark, found[mark], at, command, proof):
                    return False
        for one in command.redirections:
            for mark in MARK.findall(one.target.text):
                is_stream = found[mark].kind == "file" and one.target.text == mark and one.sign == "<"
                is_name = mark in self.guarded_names and one.target.text == mark and one.sign == "<"
                if not (is_stream or is_name):
                    return False
        if any(word.globs or word.has_status for word in command.words) and any(
            not one.is_quoted for one in found.values()
        ):
            return False  # word splitting uses a shell of its own, which expands no patterns
        proof.files = [file for file in proof.files if not MARK.search(file.text)]
        steps.append(ProvedStep(command, proof, found))
        return True

    def may_stand(self, mark: str, part: ProvedPart, at: int, command: SimpleCommand, proof: Proof) -> bool:
        """Whether a part's output, which may be any text, is harmless as this word of a command."""
        word, is_operand = command.texts[at], any(file.at == at for file in proof.files)
        if part.kind == "file":
            return word == mark and is_operand and proof.name in _READ_STREAMS
        if part.kind not in ("output", "value"):
            return False
        if proof.name in PRINT:
            return proof.name == "echo" or (at > 1 and _has_format(command))
        if not part.is_quoted and word != mark:
            return False
        if part.kind == "output" and proof.name in TAKE_LISTS:
            is_list = _lists_files(part.lines[0]) and not part.is_quoted
            return is_list and is_operand and ends_options(command.words, at)
        if proof.name == "test":
            return self.may_test(command, mark)
        is_dashed = word == mark and ends_options(command.words, at)
        if proof.name in ("basename", "dirname"):
            return is_dashed
        if not is_operand:
            first = command.texts.index("--") + 1 if is_dashed else 0
            return at == first and first > 0 and proof.name in _TAKE_PATTERNS and part.is_quoted
        if proof.name == "git log":
            return word == mark and mark in self.names and "--" in command.texts[:at]
        is_known = mark in self.guarded_names or (mark in self.names and proof.name in NAMES_ONLY)
        return is_dashed and is_known and proof.name in NAMES_ONLY | SHOW_CONTENT

    def may_test(self, command: SimpleCommand, mark: str) -> bool:
        given = command.texts[1:]
        if len(given) == 2 and given[1] == mark:
            is_file = mark in self.names or mark in self.guarded_names
            return given[0] in _ASK_ABOUT_TEXT or (is_file and given[0] in _ASK_ABOUT_FILE)
        return len(given) == 3 and given[1] in _COMPARE and given[0] not in ("!", "(")


def _lists_files(steps: Sequence[ProvedStep]) -> bool:
    """Whether a line prints only file names found by read-only commands."""
    is_one_pipe = all(step.command.joint == "|" for step in steps[1:])
    return is_one_pipe and lists_files([(step.command, step.proof) for step in steps])


def _replace_givers(steps: list[ProvedStep], givers: Givers) -> None:
    """Replace the last steps with the commands that supply names. The first of them examines more than names."""
    first = len(steps) - len(givers.commands)
    for at, command in enumerate(givers.commands, first):
        steps[at] = replace(steps[at], command=command, proof=replace(steps[at].proof, shows_found=at == first))
    steps += [ProvedStep(command, Proof(command.texts[0]), {}) for command in givers.further]


def _has_format(command: SimpleCommand) -> bool:
    return not MARK.search(command.texts[1]) and command.texts[1][:1] != "-"


def _keeps_to_looks(steps: Sequence[ProvedStep]) -> bool:
    """Whether a line that changes the folder does something there, does not change it again, and runs neither git nor
    npm: it may be a foreign repository."""
    names = [step.proof.name for step in all_steps(steps)][1:]
    return bool(names) and not any(name == "cd" or name.startswith(("git", "npm")) for name in names)


def prove_command(command: SimpleCommand, before: Sequence[tuple[SimpleCommand, Proof]]) -> Proof | None:
    """Return the proof for a read-only command after others of its line, or None."""
    if command.texts[0] == "cd" and not before:
        proof: Proof | None = _cd(command)
    else:
        # The content of a folder not asked about is unknown, so a bare name is not enough.
        is_by_name = command.words[0].is_bare and "/" not in command.texts[0]
        proof = (
            _version(command)
            or _syntax_check(command)
            or _prove_set(command)
            or _exit(command)
            or _tee(command)
            or _npm_list(command)
            if is_by_name
            else None
        )
        if proof is None and is_by_name and command.texts[0] == "xargs":
            proof = prove_names_xargs(command.words, before, is_fed=command.is_fed)
        elif proof is None and is_by_name:
            proof = check_read_only(command.words, is_fed=command.is_fed or bool(command.redirections))
    if any(word.globs and not word.is_bare for word in command.words):
        return None  # it is no longer known which of its characters were quoted
    if any(word.has_status for word in command.words) and (proof is None or proof.name not in _TAKE_NUMBERS):
        return None
    if proof is None or not proof.only_looks or proof.unproved or proof.needs_input:
        return None
    proof.files += [Operand(one.target.text, len(command.words)) for one in command.redirections if one.sign == "<"]
    return proof


def without_command(command: SimpleCommand) -> SimpleCommand:
    """Rewrite `command ls` as `ls`. They are equivalent unless a function has that name, and proved lines define
    none."""
    texts, words = command.texts, command.words
    is_prefix = texts[0] == "command" and words[0].is_bare and len(words) > 1 and texts[1] not in ("cd", "command")
    if not is_prefix or not (words[1].is_plain and words[1].is_bare) or texts[1][:1] == "-":
        return command
    return replace(command, words=words[1:], texts=texts[1:])


def _version(command: SimpleCommand) -> Proof | None:
    """Prove a program that is only asked for its version."""
    is_asked = len(command.words) == 2 and command.words[1].is_plain
    return Proof("version") if is_asked and command.texts[1] in VERSIONS.get(command.texts[0], "").split() else None


def _syntax_check(command: SimpleCommand) -> Proof | None:
    """Prove a shell that only checks a script's syntax."""
    texts = command.texts
    is_one = len(texts) == 3 and texts[0] in ("bash", "sh", "dash") and texts[1] == "-n" and command.words[2].is_plain
    return Proof("sh -n", files=[Operand(texts[2], 2)]) if is_one and texts[2][:1] not in ("-", "+", "") else None


def _prove_set(command: SimpleCommand) -> Proof | None:
    """Prove shell options for the rest of the line that only make it stop earlier or trace commands."""
    is_known = len(command.texts) > 1 and _SHELL_OPTIONS.fullmatch(" ".join(command.texts[1:]))
    return Proof("set") if command.texts[0] == "set" and is_known else None


def _exit(command: SimpleCommand) -> Proof | None:
    """Prove the end of the line with an exit code."""
    texts = command.texts
    is_known = texts[0] == "exit" and (len(texts) == 1 or (len(texts) == 2 and _EXIT.fullmatch(texts[1])))
    return Proof("exit") if is_known else None


def _npm_list(command: SimpleCommand) -> Proof | None:
    """Prove a list of installed packages. npm runs nothing for it if the project has no settings for npm."""
    texts = command.texts
    is_list = (
        texts[0] == "npm" and texts[1:2] in (("ls",), ("list",)) and _NPM_LIST.fullmatch(" ".join(("", *texts[2:])))
    )
    is_plain = all(word.is_plain and " " not in word.text for word in command.words)
    files = [Operand(name, len(texts)) for name in _NPM_FILES]
    return Proof("npm ls", files=files) if is_list and is_plain else None


def _tee(command: SimpleCommand) -> Proof | None:
    """Prove `tee` if it only passes its input on."""
    is_idle = command.texts[0] == "tee" and set(command.texts[1:]) <= {"/dev/null", "-a"}
    return Proof("tee") if is_idle and command.is_fed else None


def _cd(command: SimpleCommand) -> Proof | None:
    given = [word for word in command.words[1:] if word.text not in ("--", "-P", "-L")]
    if (
        not command.words[0].is_bare
        or len(given) != 1
        or not given[0].is_plain
        or given[0].text[:1] in "-~+"
        or ".." in given[0].text.split("/")
    ):
        return None
    return Proof("cd", files=[Operand(given[0].text, 1)])
