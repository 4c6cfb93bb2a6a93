"""Masked outputs: one line each that says what the call did, with the reference of the stored output. Long replies are
reduced to head and tail. Calls, arguments and reasoning stay unchanged. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace

from ebbtide.agent.context.error_lines import most_telling
from ebbtide.agent.context.estimate import output_size
from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.context.long_replies import as_retold, long_reply
from ebbtide.agent.context.offload import text_without_insertions
from ebbtide.agent.context.reread_model import content_of, with_departed
from ebbtide.agent.context.steps import is_by_user
from ebbtide.agent.context.stub_identifiers import SeenIdentifiers, StubIdentifiers
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Message,
    Note,
    ShortenedPart,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.outputs.plain_text import plain, printable
from ebbtide.tools.process.state import ProgramState

MAX_COMMAND_CHARS, MAX_ERROR_CHARS, MAX_OUTPUT_CHARS = 80, 120, 80
"""Maximum characters of a command, of an error line and of any other output in its stub."""
MAX_PATH_CHARS = 1000
STUB_TOKENS = 28
"""Typical tokens of a stub without the names in it."""
SHORT_NOTE_CHARS = 400
"""Maximum characters of a note that stays when its message is replaced."""
MIN_MASKED_TOKENS = 4 * STUB_TOKENS
"""Outputs above this many tokens are worth masking. A stub may be twice as long as usual, and it says less."""

_MATCH = regex(r"(?:matches: )?\d+[:-] (.*?)(?: \(and \d+ like it, from line \d+\)\]?)?\Z")
"""A line of the matches in a preview."""
HOOK_NOTE_PREFIX = "[A hook of the user for "
"""Prefix of a hook's note, which follows the output."""
_WHERE = regex(r"\n\((?:lines \d+-\d+ of|there are more|stopped after|\d+ of \d+ files)\b[^\n]*\)\s*\Z")
"""How outputs of earlier versions state how much of the whole they show."""
_PATCHED_FILE = regex(r"^[ \t]*\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_IN_DIFF = regex(r"^--- .+\n\+\+\+ (?:b/)?(.+)$", re.MULTILINE)
_EMPTY = {"no lines match", "no output", ""}
_STEERS = regex(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
"""Terminal control characters, except whitespace."""
_LIKE_OURS = regex(r"\[(\s*(?:recall\s*:[^\[\]]*|(?:r\d+|msg-[0-9a-f]+|sum-\d+)[^\[\]\s]*\s*))(\]?)", re.IGNORECASE)
"""Text that looks like one of the program's references."""


@dataclass(frozen=True, slots=True)
class NumberedOutput:
    """An output with its number in the session and the call that it answers, as executed."""

    call: ToolCall
    output: ToolOutput
    number: int
    identifiers: SeenIdentifiers | None = field(default=None, compare=False, repr=False)
    """Identifiers in the stubs of all outputs of its view, and below its index among them. Without them the stub
    ignores the other outputs."""
    place: int = field(default=0, compare=False, repr=False)

    @property
    def ref(self) -> str:
        return f"r{self.number}"

    @property
    def names(self) -> str:
        """The names that its stub lists."""
        return (
            StubIdentifiers().suffix_for(self.output) if self.identifiers is None else self.identifiers.at(self.place)
        )


@memoized
def numbered_outputs(conversation: Conversation) -> tuple[NumberedOutput, ...]:
    """Return every output of the conversation in call order, numbered from 1 over the whole session."""
    return tuple(_iter_numbered(conversation.messages, conversation.outputs_before))


def outputs_so_far(conversation: Conversation) -> int:
    """Number of outputs in the session."""
    return conversation.outputs_before + sum(
        len(message.outputs) for message in conversation.messages if isinstance(message, User)
    )


def _iter_numbered(messages: tuple[Message, ...], number: int) -> Iterator[NumberedOutput]:
    calls: Mapping[str, ToolCall] = {}
    outputs = list[ToolOutput]()
    told = SeenIdentifiers(outputs)
    for message in messages:
        if isinstance(message, Assistant):
            calls = {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            number += 1
            call = calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
            outputs.append(output)
            yield NumberedOutput(executed_call(call, output), output, number, told, len(outputs) - 1)


@memoized
def visible_messages(conversation: Conversation) -> tuple[Message, ...]:
    """Return the messages as the model sees them, with masked outputs and replacements applied."""
    if not conversation.masked and not conversation.retold:
        return conversation.messages
    told = {one.key: one for one in conversation.retold}
    less = {
        id(found.output): output
        for found in numbered_outputs(conversation)
        if (output := visible_output(found, conversation.masked, told)) is not found.output
    }

    def shown(part: UserPart) -> UserPart:
        return less.get(id(part), part) if isinstance(part, ToolOutput) else part

    def whole(position: int, message: Message) -> Message:
        said = told.get(message_key(position))
        if not isinstance(message, User):
            return as_retold(message, said)
        if said is None and not any(id(output) in less for output in message.outputs):
            return message  # the same object, so cached values stay valid
        parts = message.parts if said is None else _retold(message, said.text)
        return User(tuple(shown(part) for part in parts))

    return tuple(
        whole(position, message) for position, message in enumerate(conversation.messages, conversation.messages_before)
    )


def visible_output(found: NumberedOutput, masked: AbstractSet[str], told: Mapping[str, ShortenedPart]) -> ToolOutput:
    """Return the output as the model sees it; the same object if it is shown in full. `told`: replacements by key."""
    if found.output.call_id in masked:
        return replace(found.output, text=output_stub(found), images=())
    one = told.get(found.ref)
    return (
        found.output
        if one is None
        else replace(found.output, text=one.text, images=found.output.images[: one.pictures])
    )


def _retold(message: User, said: str) -> tuple[UserPart, ...]:
    """Return the parts of a message with all its long text replaced by `said`."""
    parts, is_told = list[UserPart](), False
    for part in message.parts:
        if not is_at_length(part):
            parts.append(part)
        elif not is_told:
            parts.append(Text(said) if isinstance(part, Text) else Note(said))
            is_told = True
    return tuple(parts)


def is_at_length(part: UserPart) -> bool:
    """Whether a stub may replace the part: user text, and long notes of the program. A short note reports a change, and
    stays."""
    return isinstance(part, Text) or (isinstance(part, Note) and len(part.text) > SHORT_NOTE_CHARS)


def message_key(position: int) -> str:
    """Return the key of a message in a view, made from its position in the session's log."""
    return f"m{position}"


def mask_by_keys(conversation: Conversation, keys: AbstractSet[str]) -> Conversation:
    """Mask the outputs with these keys that take at least twice as much as their stub, and reduce the replies with
    these keys to head and tail. Returns the same conversation if there are none."""
    told = {one.key: one for one in conversation.retold}
    outputs = [
        found
        for found in numbered_outputs(conversation)
        if found.ref in keys
        and found.output.call_id not in conversation.masked
        and 2 * output_size(replace(found.output, text=output_stub(found), images=()))
        <= output_size(visible_output(found, frozenset(), told))
    ]
    chosen = {found.output.call_id: found.ref for found in outputs}
    replies = tuple(_shorter_replies(conversation, keys))
    if not chosen and not replies:
        return conversation
    retold = tuple(one for one in conversation.retold if one.key not in chosen.values()) + replies
    return replace(
        conversation,
        masked=conversation.masked | chosen.keys(),
        retold=retold,
        anchor=None,
        anchored=0,
        recalls=with_departed(
            conversation.recalls, (content_of(one.call) for one in outputs if not one.output.is_part)
        ),
    )


def newly_masked(before: Conversation, after: Conversation) -> frozenset[str]:
    """Return the keys of the outputs masked since, and of the texts shortened since."""
    masked, told = after.masked - before.masked, {one.key for one in after.retold} - {one.key for one in before.retold}
    return frozenset(told | {one.ref for one in numbered_outputs(before) if one.output.call_id in masked})


def _shorter_replies(conversation: Conversation, keys: AbstractSet[str]) -> Iterator[ShortenedPart]:
    before: Message | None = None
    for position, message in enumerate(conversation.messages, conversation.messages_before):
        if message_key(position) in keys and (reply := long_reply(message, before)) is not None:
            yield ShortenedPart(message_key(position), "preview", reply.less)
        before = message


def newest_reply(messages: Sequence[Message]) -> int:
    """Return the index of the model's last reply; 0 if there is none."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, Assistant) and not is_by_user(message):
            return index
    return 0


def is_worth_a_line(output: ToolOutput) -> bool:
    """Whether the output, as shown, is large enough to be masked. A stub is not."""
    # Sixty characters take at most 100 tokens, and most outputs are that short.
    return (len(output.text) > 60 or bool(output.images)) and output_size(output) > MIN_MASKED_TOKENS


def output_stub(found: NumberedOutput) -> str:
    """Return the stub of a masked output: what the call did, and identifiers found in a long output."""
    return outcome_with_ref(found) + found.names


def outcome_with_ref(found: NumberedOutput) -> str:
    """Return the one-line description of an output with its reference."""
    return f"{' '.join(outcome_line(found.call, found.output).split())} [recall:{found.ref}]"


def outcome_line(call: ToolCall, output: ToolOutput) -> str:
    """Describe in one line what a call did and how it ended. Foreign text in it contains no control characters and
    nothing that looks like a reference."""
    ending = "" if output.status == "done" else f" – {output.status}: {first_error(output)}"
    call = executed_call(call, output)
    match call.name:
        case "read":
            return f"Viewed {safe_path(_word(call, 'path'))}{ending or f' – {_viewed_extent(output)}'}"
        case "bash":
            command = safe_line(_word(call, "command"), MAX_COMMAND_CHARS)
            return f"Ran: {command} – {exit_of(output)}"
        case "grep" | "glob":
            where = safe_path(_word(call, "path", "."))
            pattern = safe_line(_word(call, "pattern"), MAX_COMMAND_CHARS)
            return f"Searched '{pattern}' in {where}{ending or f' – {_match_extent(output)}'}"
        case "edit" | "write" | "edit_notebook":
            return f"Edited {safe_path(_word(call, 'path'))}{ending}"
        case "apply_patch":
            return f"Edited {', '.join(map(safe_path, patched_paths(call))) or 'files'}{ending}"
        case name:
            return f"Called {safe_line(name, MAX_COMMAND_CHARS)}{ending or f' – {_result_summary(output)}'}"


def _viewed_extent(output: ToolOutput) -> str:
    """Describe which part of a file was shown."""
    extent = output.extent
    if extent is None:
        return "a picture" if output.images or output.pictures else pluralize(_count(output.text), "line")
    if extent.is_all:
        return pluralize(extent.shown, extent.noun)
    last = extent.first + extent.shown - 1
    which = f"{extent.noun} {last}" if last == extent.first else f"{extent.unit} {extent.first}-{last}"
    return f"{which} of {extent.total}"


def _match_extent(output: ToolOutput) -> str:
    """Describe how much of a search result was shown."""
    extent = output.extent
    if extent is None:
        return pluralize(0 if output.text.strip() in _EMPTY else _count(output.text), "match")
    if extent.is_all:
        return pluralize(extent.shown, extent.noun)
    if extent.total is None:
        return f"the first {pluralize(extent.shown, extent.noun)} of more"
    return f"{extent.shown} of {extent.total} {extent.unit}"


def _result_summary(output: ToolOutput) -> str:
    """Describe the result of a call to an unknown tool: its size and its beginning."""
    stored, pictures = output.stored, len(output.images) + len(output.pictures)
    size = "" if stored is None else pluralize(stored.lines, "line") if stored.lines > 1 else f"{stored.size:,} bytes"
    amount = ", ".join(filter(None, (size, pluralize(pictures, "picture") if pictures else "")))
    return (
        ": ".join(
            filter(None, (amount, safe_line(text_without_insertions(output.text, output.inserted), MAX_OUTPUT_CHARS)))
        )
        or "nothing"
    )


def exit_of(output: ToolOutput) -> str:
    """Describe how a command ended: `exit 0`, or how it failed and the line that says why."""
    program, is_done = output.program, output.status == "done"
    if program is None and is_done:
        return f"done: {safe_line(text_without_insertions(output.text, output.inserted), MAX_OUTPUT_CHARS)}"
    how = output.status if program is None else _how(program)
    error = "" if is_done else first_error(output)
    return f"{how} – {error}" if error else how


def _how(program: ProgramState) -> str:
    if program.job:
        return f"{program.job}: {program.how}"
    return program.how if program.code is None else f"exit {program.code}"


def first_error(output: ToolOutput) -> str:
    """Return the first line with the strongest sign of an error. Without one, return a program's last line, which says
    most about how it failed, or else the output's own first line."""
    heading = next((end for start, end in output.inserted if start == 0), 0)
    lines = _lines(output.text[heading:], output.program)
    if output.is_part:
        lines = [_MATCH.sub(r"\1", line) for line in lines]
    found = most_telling(lines)
    if not found and output.program is not None:
        lines = _lines(text_without_insertions(output.text, output.inserted), output.program)[-1:]
    return safe_line(found or (lines[0] if lines else ""), MAX_ERROR_CHARS)


def _lines(said: str, program: ProgramState | None) -> list[str]:
    """Return the non-blank lines of an output, without the line on how its program ended."""
    said = said.partition(HOOK_NOTE_PREFIX)[0]
    printed = said if program is None else program.printed_in(said)
    return [line.strip() for line in printed.splitlines() if line.strip()]


def patched_paths(call: ToolCall) -> tuple[str, ...]:
    """Return the files named in a patch."""
    patch = _word(call, "patch")
    return tuple(path.strip() for path in _PATCHED_FILE.findall(patch) or _IN_DIFF.findall(patch))


def paths_of(call: ToolCall) -> tuple[str, ...]:
    """Return the files named in a call."""
    path = _word(call, "path")
    return (path,) if path else patched_paths(call)


def one_line(text: str, limit: int) -> str:
    """Collapse whitespace, remove control characters, and cut the text at `limit`."""
    flat = " ".join(text.split())
    if _STEERS.search(flat):
        flat = " ".join(plain(text).split())
    return ellipsize(flat, limit)


def safe_line(text: str, limit: int) -> str:
    """Like `one_line`, for foreign text within a line of the program: anything that looks like a reference is put in
    parentheses, so every reference in square brackets is genuine."""
    return _LIKE_OURS.sub(lambda found: f"({found[1]}{')' if found[2] else ''}", one_line(text, limit))


def safe_path(path: str) -> str:
    """Return the name of a file, safe within a line of the program."""
    return safe_line(printable(path), MAX_PATH_CHARS)


def _word(call: ToolCall, name: str, default: str = "") -> str:
    value = call.arguments.get(name, default)
    return value if isinstance(value, str) else str(value)


def _count(text: str) -> int:
    """Number of lines of a text, except the one that says how much it shows."""
    return len(_WHERE.sub("", text).splitlines())
