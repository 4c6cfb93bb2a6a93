"""The stub of a masked output: one line that says what the call did and how it ended."""

import re
from collections.abc import Iterator

from ebbtide.agent.messages import (
    ToolCall,
    ToolOutput,
)
from ebbtide.agent.tokens.estimate import estimate_output
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.error_lines import strongest_error_line
from ebbtide.agent.view.previews import text_without_insertions
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.outputs.plain_text import printable_name, terminal_text
from ebbtide.tools.process.state import ProgramState
from ebbtide.tools.tool_traits import traits_of

MAX_COMMAND_CHARS, MAX_ERROR_CHARS, MAX_OUTPUT_CHARS = 80, 120, 80
"""Maximum lengths in a stub, in characters: for a command, for an error line and for any other output."""
MAX_PATH_CHARS = 1000
STUB_TOKENS = 28
"""Typical size of a stub without its name list, in tokens."""
MIN_MASKED_TOKENS = 4 * STUB_TOKENS
"""Outputs with more tokens than this are worth masking. The limit allows for a stub twice as long as usual, and for the
loss of content."""

_MATCH_LINE = regex(r"(?:matches: )?\d+[:-] (.*?)(?: \(and \d+ like it, from line \d+\)\]?)?\Z")
"""An error line in a preview."""
HOOK_NOTE_PREFIX = "[A hook of the user for "
"""Prefix of a hook's note, which follows the output."""
_EXTENT_LINE = regex(r"\n\((?:lines \d+-\d+ of|there are more|stopped after|\d+ of \d+ files)\b[^\n]*\)\s*\Z")
"""Matches the last line that earlier versions added to some outputs, to say which part of the content is shown."""
_PATCHED_FILE = regex(r"^[ \t]*\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_DIFF_FILE = regex(r"^--- .+\n\+\+\+ (?:b/)?(.+)$", re.MULTILINE)
_STUB_FIELD = regex(r"\{(\w+)\}")
_NUMBERED_LINE = regex(r"^ *\d+[\t→]", re.MULTILINE)
"""Matches the number of a line in a file, as this program (tab) and Claude Code (arrow) show it."""
_FOUND_COUNT = regex(r"\AFound (\d+) (file|match)(?:es|s)?\b")
"""Matches the first line of a search by Claude Code or Gemini CLI: how much it found."""
_EMPTY_RESULTS = {"no lines match", "no output", ""}
_CONTROL_CHARS = regex(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
"""Terminal control characters, except whitespace."""
_REFERENCE_LIKE = regex(
    r"\[(\s*(?:recall\s*:[^\[\]]*|(?:r\d+|msg-[0-9a-f]+|sum-\d+)[^\[\]\s]*\s*))(\]?)", re.IGNORECASE
)
"""Matches text that looks like one of the program's references."""


def is_worth_masking(output: ToolOutput) -> bool:
    """Whether the output is large enough to be worth masking. False for stubs."""
    # A shortcut for the many short outputs: sixty characters take at most 100 tokens.
    return (len(output.text) > 60 or bool(output.images)) and estimate_output(output) > MIN_MASKED_TOKENS


def outcome_line(call: ToolCall, output: ToolOutput) -> str:
    """Describe in one line what a call did and how it ended. Text from elsewhere, such as commands and file names, is
    stripped of control characters and of anything that looks like a reference."""
    ending = "" if output.status == "done" else f" – {output.status}: {strongest_error(output)}"
    call = executed_call(call, output)
    traits = traits_of(call.name)
    action = (
        _STUB_FIELD.sub(lambda field: _stub_field(call, field[1]), traits.stub_template)
        or f"Called {_safe_text(call.name)}"
    )
    match traits.stub_result:
        case "exit":
            return f"{action} – {exit_summary(output)}"
        case "viewed":
            return action + (ending or f" – {_viewed_extent(output)}")
        case "matches":
            return action + (ending or f" – {_match_extent(output)}")
        case "summary":
            return action + (ending or f" – {_result_summary(output)}")
        case "nothing":
            return action + ending


def _stub_field(call: ToolCall, name: str) -> str:
    """Return the text for one of the fields in `ToolTraits.stub_template`."""
    match name:
        case "path":
            return safe_path(_argument_text(call, "path"))
        case "folder":
            return safe_path(_argument_text(call, "path", "."))
        case "files":
            return ", ".join(map(safe_path, patched_paths(call))) or "files"
        case _:
            return _safe_text(_argument_text(call, name))


def _safe_text(text: str) -> str:
    return safe_line(text, MAX_COMMAND_CHARS)


def _viewed_extent(output: ToolOutput) -> str:
    """Describe which part of a file was shown."""
    extent = output.extent
    if extent is None:
        is_numbered = _NUMBERED_LINE.match(output.text) is not None
        line_count = len(_NUMBERED_LINE.findall(output.text)) if is_numbered else _line_count(output.text)
        return "a picture" if output.images or output.pictures else pluralize(line_count, "line")
    if extent.shows_all:
        return pluralize(extent.shown, extent.noun)
    last_visible = extent.first + extent.shown - 1
    visible_range = (
        f"{extent.noun} {last_visible}"
        if last_visible == extent.first
        else f"{extent.unit} {extent.first}-{last_visible}"
    )
    return f"{visible_range} of {extent.total}"


def _match_extent(output: ToolOutput) -> str:
    """Describe how much of a search result was shown."""
    extent = output.extent
    if extent is None:
        if found := _FOUND_COUNT.match(output.text):
            return pluralize(int(found[1]), found[2])
        return pluralize(0 if output.text.strip() in _EMPTY_RESULTS else _line_count(output.text), "match")
    if extent.shows_all:
        return pluralize(extent.shown, extent.noun)
    if extent.total is None:
        return f"the first {pluralize(extent.shown, extent.noun)} of more"
    return f"{extent.shown} of {extent.total} {extent.unit}"


def _result_summary(output: ToolOutput) -> str:
    """Describe the output of an unknown tool: its size and how it begins."""
    stored, image_count = output.stored, len(output.images) + len(output.pictures)
    size_text = (
        "" if stored is None else pluralize(stored.lines, "line") if stored.lines > 1 else f"{stored.size:,} bytes"
    )
    amount = ", ".join(filter(None, (size_text, pluralize(image_count, "picture") if image_count else "")))
    return (
        ": ".join(
            filter(None, (amount, safe_line(text_without_insertions(output.text, output.inserted), MAX_OUTPUT_CHARS)))
        )
        or "nothing"
    )


def exit_summary(output: ToolOutput) -> str:
    """Describe how a command ended: `exit 0`, or the failure and the line that explains it."""
    program, is_done = output.program, output.status == "done"
    if program is None and is_done:
        return f"done: {safe_line(text_without_insertions(output.text, output.inserted), MAX_OUTPUT_CHARS)}"
    outcome = output.status if program is None else _program_outcome(program)
    error = "" if is_done else strongest_error(output)
    return f"{outcome} – {error}" if error else outcome


def _program_outcome(program: ProgramState) -> str:
    if program.job:
        return f"{program.job}: {program.outcome_text}"
    return program.outcome_text if program.code is None else f"exit {program.code}"


def strongest_error(output: ToolOutput) -> str:
    """Return the line that reports an error most clearly, or the first of several such lines. If no line reports an
    error, return the last line of a program's output, which usually says why it failed, or the first line of any other
    output."""
    lines = list(_visible_lines(output))
    error_line = strongest_error_line(lines)
    if not error_line and output.program is not None:
        lines = _printed_lines(text_without_insertions(output.text, output.inserted), output.program)[-1:]
    return safe_line(error_line or (lines[0] if lines else ""), MAX_ERROR_CHARS)


def _visible_lines(output: ToolOutput) -> Iterator[str]:
    """Yield the non-blank lines of an output as they were printed, without its heading. The error lines of a preview
    are part of the text that was inserted into the output; their line numbers are left out."""
    printed, position = _printed_text(output.text, output.program), 0
    for start, end in (*output.inserted, (len(printed), len(printed))):
        yield from _non_blank_lines(printed[position:start])
        if start > 0:
            for line in _non_blank_lines(printed[start:end]):
                yield _MATCH_LINE.sub(r"\1", line) if output.is_part else line
        position = end


def _printed_lines(text: str, program: ProgramState | None) -> list[str]:
    """Return the non-blank lines of an output, without the line that says how its program ended."""
    return _non_blank_lines(_printed_text(text, program))


def _printed_text(text: str, program: ProgramState | None) -> str:
    """Return the beginning of an output up to what says how its program ended."""
    text = text.partition(HOOK_NOTE_PREFIX)[0]
    return text if program is None else program.printed_text(text)


def _non_blank_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def patched_paths(call: ToolCall) -> tuple[str, ...]:
    """Return the files named in a patch."""
    patch = _argument_text(call, "patch")
    return tuple(path.strip() for path in _PATCHED_FILE.findall(patch) or _DIFF_FILE.findall(patch))


def call_paths(call: ToolCall) -> tuple[str, ...]:
    """Return the files named in a call."""
    path = _argument_text(call, "path")
    return (path,) if path else patched_paths(call)


def one_line(text: str, max_chars: int) -> str:
    """Put the text on one line, remove control characters, and cut it at `max_chars`."""
    flat = " ".join(text.split())
    if _CONTROL_CHARS.search(flat):
        flat = " ".join(terminal_text(text).split())
    return ellipsize(flat, max_chars)


def safe_line(text: str, max_chars: int) -> str:
    """Like `one_line`, for text that does not come from Ebbtide. Square brackets around anything that looks like a
    reference become parentheses, so that only genuine references stand in square brackets."""
    return _REFERENCE_LIKE.sub(lambda match: f"({match[1]}{')' if match[2] else ''}", one_line(text, max_chars))


def safe_path(path: str) -> str:
    """Make a file name safe to use in a line from Ebbtide."""
    return safe_line(printable_name(path), MAX_PATH_CHARS)


def _argument_text(call: ToolCall, name: str, default: str = "") -> str:
    value = call.arguments.get(name, default)
    return value if isinstance(value, str) else str(value)


def _line_count(text: str) -> int:
    """Count the lines in `text`, except a final line that says which part is shown."""
    return len(_EXTENT_LINE.sub("", text).splitlines())
