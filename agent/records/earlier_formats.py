"""Parses values that earlier versions stored only as text. New records store them as fields; no other code parses text
that was written for the user or the model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from re import Pattern
from signal import SIGKILL, Signals

from ebbtide.agent.messages import Elision, Note, NoteKind, Ranges, ToolOutput
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.new_problems import NEW_PROBLEMS, NewProblems
from ebbtide.tools.process.state import ProgramState

_STORED_HEAD = regex(r'\[Tool result stored — [\d,]+ bytes?, [\d,]+ lines? from "[^"\n]*"\.\n')
_STORED_TAIL = ']\nUse the "read_result" tool with ref_id='
_MATCHES = regex(r"\nmatches: \d+: ")
_CUT_MARK = regex(r"\[… [\d,]+ characters? left out: the context window is nearly full; .* …\](?:\n|\Z)")


def with_parsed_ranges(output: ToolOutput) -> ToolOutput:
    """Parse `inserted` and `frame` from the output's text, because the first versions did not store these fields."""
    text = output.text
    heading, cut_match = _STORED_HEAD.match(text), _CUT_MARK.search(text)
    inserted: Ranges = (cut_match.span(),) if cut_match else ()
    if heading is None:
        return replace(output, inserted=inserted)
    inserted = (heading.span(), *inserted)
    start = text.rfind(_STORED_TAIL)
    if start < 0:  # a truncated preview has no end marker
        return replace(output, inserted=inserted)
    match_starts = [match.start() for match in _MATCHES.finditer(text, heading.end(), start)]
    end = text.find("\n", start + len(_STORED_TAIL))
    end = len(text) if end < 0 else end
    match_ranges = [(match_starts[-1], start)] if match_starts else []
    ranges = (*((first, last) for first, last in inserted if last <= start), *match_ranges, (start, end))
    return replace(output, inserted=ranges, frame=output.frame or text[end + 1 :])


_ELISION = regex(r'\n\[… ([\d,]+) bytes left out: [^\n"]*ref_id="[^\n"]*"[^\n"]* …\]\n')


def parse_elision(text: str) -> Elision | None:
    """Parse the elision in the middle of a user's text. None if the text has no elision."""
    match = _ELISION.search(text)
    return Elision(*match.span(), int(match[1].replace(",", ""))) if match else None


_PROGRAM_STATE = regex(
    r"(?:(?P<job>job-\d+): )?(?:exit code (?P<code>\d+)|killed by (?:signal (?P<number>\d+)|(?P<name>SIG\w+)))"
    r"|ended: not finished after (?P<limit>\d+) s;.*|(?P<running>job-\d+)(?:: still running| is running;.*)"
)
_MAX_TAIL_LINES = 40
"""Number of lines at the end of an output that are searched for the exit status. The exit status might not be in the
last line, because hooks may have added lines after it."""


def parse_program_state(exit_text: str, text: str) -> ProgramState | None:
    """Parse the state of the program that a call ran. None if neither text describes it. `exit_text`: the exit status
    if it was stored as a field, otherwise empty. `text`: the output."""
    for line in reversed((exit_text or text).split("\n")[-_MAX_TAIL_LINES:]):
        if match := _PROGRAM_STATE.fullmatch(line):
            code, limit = (int(match[name]) if match[name] else None for name in ("code", "limit"))
            signal, job = _signal_of(match["number"], match["name"]), match["job"] or match["running"] or ""
            program = ProgramState(exit_text or line, code, signal, limit, job)
            return replace(program, is_silent=program.printed_text(text) in ("no output", "no new output"))
    return None


def parse_new_problems(text: str) -> NewProblems | None:
    """Parse the problems that a file change introduced. None if the output lists none."""
    lines = tuple(text.partition(f"\n{NEW_PROBLEMS}\n")[2].splitlines())
    if not lines:
        return None
    *problem_lines, last_line = lines
    is_remainder = last_line.startswith("and ") and last_line.endswith(" more")
    last_count = (
        sum(int(word.replace(",", "")) for word in last_line.split() if word[0].isdigit()) if is_remainder else 1
    )
    return NewProblems(len(problem_lines) + last_count, lines)


def _signal_of(number: str | None, name: str | None) -> int | None:
    if name is None:
        return int(number) if number else None
    return Signals[name].value if name in Signals.__members__ else SIGKILL.value


_NOTE_BEGINNINGS: Mapping[NoteKind, Pattern[str]] = {
    "brought": regex(r"\[The user brings `(?P<name>[^`\n]+)` back into view:\]\n"),
    "pasted": regex(r"What the user pasted as (?P<name>[^\n]*?):\n\n"),
    "piped": regex(r"What the user piped in:\n\n"),
    "folder": regex(r"The folder `(?P<name>[^\n]+)` holds:\n\n"),
    "file": regex(r"`(?P<name>[^\n]+)` holds:\n\n"),
    "picture": regex(r"`(?P<name>[^\n]+)` is this picture:\Z"),
    "origin": regex(r'\[What came with this message is kept under ref_id="(?P<name>msg-[0-9a-f]{8})"\.\]\Z'),
    "step": regex(r"\[The newest step took more than the whole window, so it is not shown\. "),
    "meanwhile": regex(r"\[The user says this while you work\. "),
    "final": regex(r"The context window is full, so this is the final turn\. "),
    "mode": regex(r"\[The permission mode is now `(?P<name>[\w-]+)`"),
    "context": regex(r"\[Context: (?P<name>\d+)%"),
    "searched": regex(r"\[(?P<name>\d+) tools? deferred to save context\. Search for them"),
    "deferred": regex(r"\[(?:(?P<name>\d+) tools? deferred to save|No tools are deferred)"),
    "servers": regex(r"\[The tools of servers (?:have changed since your list was made: (?P<name>.+)\.\]|are again)"),
}
"""Patterns for the first words of each kind of note."""
_MORE_ENTRIES = regex(r"\(([\d,]+) more: `glob` lists them\)")


def with_parsed_kind(note: Note) -> Note:
    """Parse the note's kind, the name of its source, and a description of how much it contains."""
    for kind, pattern in _NOTE_BEGINNINGS.items():
        if match := pattern.match(note.text):
            name = match.groupdict().get("name") or ("0" if kind == "deferred" else "")
            heading_chars = match.end() if kind in ("pasted", "piped", "folder", "file") else 0
            description = _NOTE_READERS[kind](note.text[heading_chars:]) if kind in _NOTE_READERS else ""
            return replace(note, kind=kind, name=name, heading=heading_chars, about=description)
    return note


def _describe_file(text: str) -> str:
    lines = text.split("\n")
    is_partial = lines[-1].startswith("(lines ")
    return pluralize(len(lines) - is_partial, "line") + (" of it" if is_partial else "")


def _describe_folder(text: str) -> str:
    *entries, last = text.split("\n")
    more_match = _MORE_ENTRIES.fullmatch(last)
    entry_count = len(entries) + (
        int(more_match[1].replace(",", "")) if more_match else last != "nothing that git does not ignore"
    )
    return f"folder, {entry_count:,} entr{'ies' if entry_count != 1 else 'y'}"


_NOTE_READERS: Mapping[NoteKind, Callable[[str], str]] = {"file": _describe_file, "folder": _describe_folder}


def split_title(title: str) -> tuple[str, str]:
    """Split the title of a pinned item into its description and its reference."""
    description, _, ref = title.rpartition(" [recall:")
    return description, ref.removesuffix("]")
