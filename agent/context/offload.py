"""How an output is shown: in full, or as head, tail and error lines. Pure; where the rest is stored is decided
elsewhere."""

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
"""Which limit applies to an output: that of programs and servers, that of files, or none."""

_KINDS: dict[str, OutputKind] = {
    "read": "file",
    "grep": "file",
    "glob": "file",
    "task": "file",  # gives another agent a task and returns its report
    "read_result": "whole",
    "tool_output_cache": "whole",
    "tool_output_cache_grep": "whole",
    "recall": "whole",
    "ask_user": "whole",
    "tool_search": "whole",
}

_HEAD = 0.6
"""Share of the head when a text is cut for lack of room."""
_PREVIEW_HEAD = 0.3
"""Share of the head in a preview: a program's last output says more."""
_MAX_ROUTINE_LINES = 5
"""Maximum number of consecutive routine lines shown."""
_MAX_LINE_CHARS = 400
"""Maximum characters of a line in a preview."""
_MAX_END_BYTES = 1 << 14
"""Bytes examined at each end."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """Limits for showing outputs."""

    threshold: int = 4096
    """Maximum bytes of a program's or server's output that is shown in full."""
    preview: int = 2048
    """Size of a preview, in bytes."""
    file_bytes: int = 51_200
    """Maximum bytes shown by reading or searching files, with any command."""
    mode: OffloadMode = "auto"


def should_show_whole(call: ToolCall, size: int, settings: Offloading) -> bool:
    """Whether an output of `size` bytes is shown in full. Recalled output always is. Output that shows files has the
    limit of files, whichever command shows them, and so has another agent's report: most of it is needed in the next
    steps."""
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
    """Whether the tool's outputs are stored elsewhere and never stored again."""
    return _KINDS.get(tool) == "whole"


def cut_output(output: ToolOutput, room: int, size: int, count: Callable[[ToolOutput], int], how: str) -> ToolOutput:
    """Cut the middle of the output so that it fits into `room`, with a note on how to get the rest. Its pictures are
    not shown. `size`: tokens of the whole output. Without any room only the note remains."""
    keep = len(output.text) * max(room, 0) // max(size, 1)
    shown = _without_middle(output, keep, how)
    while keep and count(shown) > room:
        keep = keep * 3 // 4 if keep > 40 else 0
        shown = _without_middle(output, keep, how)
    return shown


def _without_middle(output: ToolOutput, keep: int, how: str) -> ToolOutput:
    pictures = f"its pictures ({len(output.images)}) are not shown, look at one at a time" if output.images else ""
    text, ranges = output.text, output.inserted
    if len(ranges) > 1 and ranges[0][0] == 0:  # a preview: keep what it says about itself
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
    """Return how many of `keep` characters head and tail may take, and a line of names to go between them."""
    most = int(SHARE * keep)
    head, tail = _cut_at(text, keep - most)
    middle = text[head : min(tail, head + MAX_INDEXED_BYTES)]
    index = name_index(middle, text[:head] + text[tail:], most) if middle else ""
    return keep - len(index), index


def _ends(text: str, keep: int, note_of: Callable[[int], str]) -> str:
    """Return head and tail, `keep` characters together, with a note between them on how many are left out."""
    head, tail = _cut_at(text, keep)
    return "\n".join(part for part in (text[:head], note_of(tail - head), text[tail:]) if part)


def _cut_at(text: str, keep: int) -> tuple[int, int]:
    head = int(keep * _HEAD)
    return head, max(len(text) - (keep - head), head)


def shift_ranges(ranges: Iterable[tuple[int, int]], by: int) -> Ranges:
    """Return the ranges shifted by `by` characters."""
    return tuple((start + by, end + by) for start, end in ranges)


def text_without_insertions(text: str, inserted: Ranges) -> str:
    """Return the output's own text, without what the program inserted."""
    words, at = list[str](), 0
    for start, end in inserted:
        words.append(text[at:start])
        at = end
    return "".join((*words, text[at:]))


def readable(data: bytes) -> str:
    """Return a program's output as a terminal would show it."""
    return plain(data.decode("utf-8", "replace"))


@dataclass(slots=True)
class StreamedPreview:
    """Consumes an output in chunks of any size and collects what a preview may need."""

    size: int = 0
    newlines: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytes = b""
    _open: bytes = b""
    """The beginning of a line that is not yet complete."""
    _matches: ErrorMatches = field(default_factory=ErrorMatches)
    _whole: bytearray = field(default_factory=bytearray)
    """The whole output, as long as it is short enough for an index of names."""

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
        """The first bytes; all of a short output."""
        return bytes(self._head)

    @property
    def lines(self) -> int:
        return self.newlines + (self.size > 0 and not self._tail.endswith(b"\n"))

    @property
    def is_binary(self) -> bool:
        ends = bytes(self._head) if self.size <= _MAX_END_BYTES else bytes(self._head) + self._tail
        return is_mostly_noise(ends.decode("utf-8", "replace"))

    def _look(self, chunk: bytes) -> None:
        """Collect lines that report errors."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._open = (self._open + chunk)[:_MAX_END_BYTES]
            return
        self._matches.take(self._open + chunk[:end], self.newlines + 1)
        self._open = chunk[end:][:_MAX_END_BYTES]

    def preview(self, settings: Offloading) -> str:
        """Return head, tail, the error lines between them, and names that occur in none of these."""
        return "".join(self.ends_and_matches(settings))

    def ends_and_matches(self, settings: Offloading) -> tuple[str, str]:
        """Return head and tail, and separately what is said about the rest."""
        shown, matches = self._ends_and_matches(settings)
        if self.is_binary or self.size > MAX_INDEXED_BYTES:
            return shown, matches
        return shown, matches + name_index(_plain_text(self._whole), shown + matches, index_size(self.size))

    def _ends_and_matches(self, settings: Offloading) -> tuple[str, str]:
        """Return head and tail, and the error lines, which take at most half of the room."""
        if self.is_binary:
            return f"not text; it begins with {bytes(self._head[:32]).hex(' ')}", ""
        if self.lines <= 3:
            return self._middle_left_out(settings.preview), ""
        room = max(min(MAX_MATCH_BYTES, settings.preview // 2), MIN_MATCH_BYTES)
        ends, matches = self._ends(settings.preview), ""
        for _ in range(2):  # shorter ends may leave out further error lines
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
        """Return head and tail of an output with hardly any line breaks."""
        most_head = int(most * _PREVIEW_HEAD)
        most_tail = most - most_head
        head, tail = bytes(self._head[:most_head]), self._tail[-most_tail:]
        note = f"[… bytes {len(head)}-{self.size - len(tail)} left out …]"
        return f"{_plain_text(head)}\n{note}\n{_plain_text(tail)}"


def _less_routine(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines without the middle of long routine runs."""
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
    """Number of the last line of the head."""
    last: int
    """Number of the first line of the tail."""


def _whole_lines(data: bytes | bytearray, most: int, *, from_end: bool = False, ends_open: bool) -> list[str]:
    """Return as many whole lines from one end as fit, at least one, with long ones cut. `ends_open`: the other end of
    the data may be in the middle of a line."""
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
    """The visible part of an output that is stored elsewhere."""

    text: str
    inserted: Ranges
    """As in `ToolOutput`."""


def stored_form(tool: str, ref: str, size: int, lines: int, shown: str, matches: str = "") -> Excerpt:
    """Return the visible form of a stored output: its size, an excerpt, and how to read the rest."""
    heading = f'[Tool result stored — {pluralize(size, "byte")}, {pluralize(lines, "line")} from "{tool}".\n'
    end = len(heading) + len(shown)
    text = f"{heading}{shown}{matches}]\n{how_to_see(ref)}"
    ranges = (0, len(heading)), (end, end + len(matches)), (end + len(matches), len(text))
    return Excerpt(text, tuple((start, end) for start, end in ranges if start < end))


def preview_of(text: str, settings: Offloading = Offloading()) -> tuple[str, int, int]:  # noqa: B008  # a frozen value
    """Return the preview of a text that was shown in full, and its number of bytes and lines."""
    skim = StreamedPreview()
    skim.take(text.encode("utf-8", "surrogatepass"))
    return skim.preview(settings), skim.size, skim.lines


def how_to_see(ref: str) -> str:
    return f'Use the "read_result" tool with ref_id="{ref}" to read specific portions.'


def cut_form(skim: StreamedPreview, ref: str | None, settings: Offloading) -> Excerpt:
    """Return head and tail of an output, as much as may be shown in full, and where the rest is, if it is stored."""
    larger = Offloading(preview=settings.threshold)
    note = f'cut; ref_id="{ref}" has all of it' if ref else "cut; the rest could not be kept"
    shown, matches = skim.ends_and_matches(larger)
    text = f"{shown}{matches}\n[{pluralize(skim.size, 'byte')}, {pluralize(skim.lines, 'line')}, {note}]"
    return Excerpt(text, ((len(shown), len(text)),))
