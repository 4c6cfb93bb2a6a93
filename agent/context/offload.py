"""What the model is shown of an output: all of it, or its ends and the lines that tell of errors. Pure: bytes and
outputs in, text and choices out; where the rest is kept is not decided here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.error_lines import is_routine, named_alike
from ebbtide.agent.context.error_matches import MAX_MATCH_BYTES, MIN_MATCH_BYTES, ErrorMatches
from ebbtide.agent.context.name_index import MAX_INDEXED_BYTES, SHARE, index_size, name_index
from ebbtide.agent.messages import Ranges, ToolCall, ToolOutput
from ebbtide.tools.commands.viewers import shows_files
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize, truncate
from ebbtide.tools.outputs.plain_text import is_mostly_noise, plain

OffloadMode: TypeAlias = Literal["auto", "full-chunked", "read-grep", "truncate"]

OutputKind: TypeAlias = Literal["program", "file", "whole"]
"""What limits an output: that of programs and servers, that of files, or none."""

_KINDS: dict[str, OutputKind] = {
    "read": "file",
    "grep": "file",
    "glob": "file",
    "task": "file",  # what gives another agent something to do, and gives back its report
    "read_result": "whole",
    "tool_output_cache": "whole",
    "tool_output_cache_grep": "whole",
    "recall": "whole",
    "ask_user": "whole",
    "tool_search": "whole",
}

_HEAD = 0.6
"""The part that the beginning has of a text that is cut for want of room."""
_PREVIEW_HEAD = 0.3
"""The part that the beginning has of the ends in a preview: what a program did last tells more."""
_MAX_ROUTINE_LINES = 5
"""Lines of routine that are shown in a row."""
_MAX_LINE_CHARS = 400
"""Characters of a line in a preview."""
_MAX_END_BYTES = 1 << 14
"""Bytes of each end that are looked at."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """How outputs are shown."""

    threshold: int = 4096
    """Bytes that the output of a program or a server may have and still be shown whole."""
    preview: int = 2048
    """Bytes of a preview."""
    file_bytes: int = 51_200
    """Bytes that reading or searching files may show at once, by whatever command."""
    mode: OffloadMode = "auto"


def should_show_whole(call: ToolCall, size: int, settings: Offloading) -> bool:
    """Whether an output of so many bytes stands in the view as it is. What was brought back always does. What shows
    files is a file, whatever shows it, and so is the report of another agent: most are needed in the next steps."""
    match _kind_of(call):
        case "whole":
            return True
        case "file":
            return size <= settings.file_bytes
        case "program":
            return size <= settings.threshold


def _kind_of(call: ToolCall) -> OutputKind:
    command = call.arguments.get("command") if call.name == "bash" else None
    return "file" if isinstance(command, str) and shows_files(command) else _KINDS.get(call.name, "program")


def is_recall_tool(tool: str) -> bool:
    """Whether its outputs are kept somewhere else and are never kept again."""
    return _KINDS.get(tool) == "whole"


def cut_output(output: ToolOutput, room: int, size: int, count: Callable[[ToolOutput], int], how: str) -> ToolOutput:
    """The output with the middle of its text left out, so that it takes no more than there is room for, and a note of
    how to get to all of it. Of its pictures none are shown. `size` is what it takes as a whole. Where there is no room
    at all, only the note is left."""
    keep = len(output.text) * max(room, 0) // max(size, 1)
    shown = _without_middle(output, keep, how)
    while keep and count(shown) > room:
        keep = keep * 3 // 4 if keep > 40 else 0
        shown = _without_middle(output, keep, how)
    return shown


def _without_middle(output: ToolOutput, keep: int, how: str) -> ToolOutput:
    pictures = f"its pictures ({len(output.images)}) are not shown, look at one at a time" if output.images else ""
    text, ranges = output.text, output.inserted
    if len(ranges) > 1 and ranges[0][0] == 0:  # a preview: what it says of itself stays
        start, end, seen = ranges[0][1], ranges[1][0], ranges[-1]
        shown = _ends(text[start:end], keep, lambda _: f"[… {pictures} …]" if pictures else "[…]")
        inserted = (ranges[0], *shift_ranges((seen,), start + len(shown) - seen[0]))
        return replace(output, text=f"{text[:start]}{shown}{text[seen[0] :]}", images=(), inserted=inserted)

    keep, index = _with_index(text, keep)

    def note_of(left_out: int) -> str:
        where = "; ".join(filter(None, (how or "ask for less at a time to see it", pictures)))
        return f"[… {pluralize(left_out, 'character')} left out: the context window is nearly full; {where} …]{index}"

    shown = _ends(text, keep, note_of)
    head, tail = _cut_at(text, keep)
    behind = len(shown) - (len(text) - tail)
    before = [(start, min(end, head)) for start, end in ranges if start < head]
    after = [(max(start, tail), end) for start, end in ranges if end > tail]
    inserted = (*before, (head + 1 if head else 0, behind), *shift_ranges(after, behind - tail))
    return replace(output, text=shown, images=(), inserted=inserted)


def _with_index(text: str, keep: int) -> tuple[int, str]:
    """How much of a text that is cut to so many characters its ends are, and a line of names between them."""
    most = int(SHARE * keep)
    head, tail = _cut_at(text, keep - most)
    middle = text[head : min(tail, head + MAX_INDEXED_BYTES)]
    index = name_index(middle, text[:head] + text[tail:], most) if middle else ""
    return keep - len(index), index


def _ends(text: str, keep: int, note_of: Callable[[int], str]) -> str:
    """Both ends of a text, of so many characters together, with a note between them of how many are left out."""
    head, tail = _cut_at(text, keep)
    return "\n".join(part for part in (text[:head], note_of(tail - head), text[tail:]) if part)


def _cut_at(text: str, keep: int) -> tuple[int, int]:
    head = int(keep * _HEAD)
    return head, max(len(text) - (keep - head), head)


def shift_ranges(ranges: Iterable[tuple[int, int]], by: int) -> Ranges:
    """The same parts of a text that has so many characters more before them."""
    return tuple((start + by, end + by) for start, end in ranges)


def text_without_insertions(text: str, inserted: Ranges) -> str:
    """What is shown of what an output said, without what the program says of the rest."""
    words, at = list[str](), 0
    for start, end in inserted:
        words.append(text[at:start])
        at = end
    return "".join((*words, text[at:]))


def readable(data: bytes) -> str:
    """What a program printed, as a terminal would leave it."""
    return plain(data.decode("utf-8", "replace"))


@dataclass(slots=True)
class StreamedPreview:
    """Looks at an output as it goes by, in pieces of any size, and remembers what a preview may need."""

    size: int = 0
    newlines: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytes = b""
    _open: bytes = b""
    """The beginning of a line that has not ended yet."""
    _matches: ErrorMatches = field(default_factory=ErrorMatches)
    _whole: bytearray = field(default_factory=bytearray)
    """All of it, while it is short enough for an index of its names."""

    def take(self, chunk: bytes) -> None:
        if self.size <= MAX_INDEXED_BYTES:
            self._whole += chunk[: MAX_INDEXED_BYTES + 1 - len(self._whole)]
        if len(self._head) < _MAX_END_BYTES:
            self._head += chunk[: _MAX_END_BYTES - len(self._head)]
        self._tail = chunk[-_MAX_END_BYTES:] if len(chunk) >= _MAX_END_BYTES else (self._tail + chunk)[-_MAX_END_BYTES:]
        self._look(chunk)
        self.size += len(chunk)
        self.newlines += chunk.count(b"\n")

    @property
    def beginning(self) -> bytes:
        """All of it when it is short."""
        return bytes(self._head)

    @property
    def lines(self) -> int:
        return self.newlines + (self.size > 0 and not self._tail.endswith(b"\n"))

    @property
    def is_binary(self) -> bool:
        ends = bytes(self._head) if self.size <= _MAX_END_BYTES else bytes(self._head) + self._tail
        return is_mostly_noise(ends.decode("utf-8", "replace"))

    def _look(self, chunk: bytes) -> None:
        """Notes lines that tell of errors."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._open = (self._open + chunk)[:_MAX_END_BYTES]
            return
        self._matches.take(self._open + chunk[:end], self.newlines + 1)
        self._open = chunk[end:][:_MAX_END_BYTES]

    def preview(self, settings: Offloading) -> str:
        """Head, tail, the lines between them that tell of errors, and the names that stand nowhere in these."""
        return "".join(self.ends_and_matches(settings))

    def ends_and_matches(self, settings: Offloading) -> tuple[str, str]:
        """The same apart: both ends, and what is said of the rest."""
        shown, matches = self._ends_and_matches(settings)
        if self.is_binary or self.size > MAX_INDEXED_BYTES:
            return shown, matches
        return shown, matches + name_index(_plain_text(self._whole), shown + matches, index_size(self.size))

    def _ends_and_matches(self, settings: Offloading) -> tuple[str, str]:
        """The lines that tell of errors take of the room for the ends, half of it at most."""
        if self.is_binary:
            return f"not text; it begins with {bytes(self._head[:32]).hex(' ')}", ""
        if self.lines <= 3:
            return self._middle_left_out(settings.preview), ""
        room = max(min(MAX_MATCH_BYTES, settings.preview // 2), MIN_MATCH_BYTES)
        ends, matches = self._ends(settings.preview), ""
        for _ in range(2):  # shorter ends may leave out lines that tell, too
            matches = self._matches.excerpt_between(ends.first, ends.last, room)
            if not matches:
                break
            ends = self._ends(max(settings.preview - len(matches.encode()), settings.preview // 2))
        return ends.text, f"\nmatches: {matches}" if matches else ""

    def _ends(self, most: int) -> "_Ends":
        most_head = int(most * _PREVIEW_HEAD)
        head = _whole_lines(self._head, most_head, ends_open=self.size > len(self._head))
        tail = _whole_lines(self._tail, most - most_head, from_end=True, ends_open=self.size > len(self._tail))[::-1]
        first, last = len(head), max(self.lines - len(tail) + 1, len(head) + 1)
        tail = tail[len(tail) - (self.lines - last + 1) :]
        left_out = [f"[… lines {first + 1}-{last - 1} left out …]"] if last > first + 1 else []
        return _Ends("\n".join([*_less_routine(head), *left_out, *_less_routine(tail)]), first, last)

    def _middle_left_out(self, most: int) -> str:
        """Both ends of an output that has hardly a line end."""
        most_head = int(most * _PREVIEW_HEAD)
        most_tail = most - most_head
        head, tail = bytes(self._head[:most_head]), self._tail[-most_tail:]
        note = f"[… bytes {len(head)}-{self.size - len(tail)} left out …]"
        return f"{_plain_text(head)}\n{note}\n{_plain_text(tail)}"


def _less_routine(lines: Sequence[str]) -> Iterator[str]:
    """The lines without the middle of long runs of routine."""
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and (
            named_alike(lines[end]) == named_alike(lines[end - 1]) or (is_routine(lines[at]) and is_routine(lines[end]))
        ):
            end += 1
        if end - at > _MAX_ROUTINE_LINES:
            yield lines[at]
            yield f"[… {end - at - 4} more like these …]"
            at = end - 3
        yield from lines[at:end]
        at = end


@dataclass(frozen=True, slots=True)
class _Ends:
    text: str
    first: int
    """The last line of the beginning."""
    last: int
    """The first line of the end."""


def _whole_lines(data: bytes | bytearray, most: int, *, from_end: bool = False, ends_open: bool) -> list[str]:
    """As many whole lines from one end as fit, long ones cut, and always one. `ends_open`: the other end of the data
    may stand inside a line."""
    lines = bytes(data).removesuffix(b"\n").split(b"\n") if from_end else bytes(data).split(b"\n")
    if not from_end and (ends_open or not lines[-1]) and len(lines) > 1:
        lines.pop()
    if from_end and ends_open and len(lines) > 1:
        lines.pop(0)
    shown = list[str]()
    for line in reversed(lines) if from_end else lines:
        text = truncate(_plain_text(line), _MAX_LINE_CHARS)
        most -= len(text.encode()) + 1
        if most < 0 and shown:
            break
        shown.append(text)
    return shown


def _plain_text(data: bytes | bytearray) -> str:
    return plain(data.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is shown of an output that is kept apart."""

    text: str
    inserted: Ranges
    """As those of a `ToolOutput`."""


def stored_form(tool: str, ref: str, size: int, lines: int, shown: str, matches: str = "") -> Excerpt:
    """What stands for an output that is kept apart: how large it is, a part of it, and how to see the rest."""
    heading = f'[Tool result stored — {pluralize(size, "byte")}, {pluralize(lines, "line")} from "{tool}".\n'
    end = len(heading) + len(shown)
    text = f"{heading}{shown}{matches}]\n{how_to_see(ref)}"
    ranges = (0, len(heading)), (end, end + len(matches)), (end + len(matches), len(text))
    return Excerpt(text, tuple((start, end) for start, end in ranges if start < end))


def preview_of(text: str, settings: Offloading = Offloading()) -> tuple[str, int, int]:  # noqa: B008  # a frozen value
    """What is shown of a text that stood whole in the view, and how many bytes and lines it has."""
    skim = StreamedPreview()
    skim.take(text.encode("utf-8", "surrogatepass"))
    return skim.preview(settings), skim.size, skim.lines


def how_to_see(ref: str) -> str:
    return f'Use the "read_result" tool with ref_id="{ref}" to read specific portions.'


def cut_form(skim: StreamedPreview, ref: str | None, settings: Offloading) -> Excerpt:
    """Both ends of an output, as much of it as may be shown whole, and where the rest is, if it is kept."""
    larger = Offloading(preview=settings.threshold)
    note = f'cut; ref_id="{ref}" has all of it' if ref else "cut; the rest could not be kept"
    shown, matches = skim.ends_and_matches(larger)
    text = f"{shown}{matches}\n[{pluralize(skim.size, 'byte')}, {pluralize(skim.lines, 'line')}, {note}]"
    return Excerpt(text, ((len(shown), len(text)),))
