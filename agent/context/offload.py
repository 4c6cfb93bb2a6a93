"""What the model is shown of an output: all of it, or its ends and the lines that tell of errors. Pure: bytes and
outputs in, text and choices out; where the rest is kept is not decided here."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from agent.messages import ToolOutput
from tools.extent import counted
from tools.lazy import dataclass, regex
from tools.truncate import is_mostly_noise, plain

Mode: TypeAlias = Literal["auto", "full-chunked", "read-grep", "truncate"]

Kind: TypeAlias = Literal["program", "file", "whole"]
"""What limits an output: that of programs and servers, that of files, or none."""

_KINDS: dict[str, Kind] = {
    "read": "file",
    "grep": "file",
    "glob": "file",
    "read_result": "whole",
    "tool_output_cache": "whole",
    "tool_output_cache_grep": "whole",
    "recall": "whole",
    "ask_user": "whole",
    "tool_search": "whole",
}

_HEAD = 0.6
_MATCHES = 512
"""Bytes of lines that tell of errors."""
_LONGEST = 400
"""Characters of a line in a preview."""
_KEPT = 1 << 14
"""Bytes of each end that are looked at."""
_NEEDLES = (b"error", b"fail")


@dataclass(frozen=True, slots=True)
class Offloading:
    """How outputs are shown."""

    threshold: int = 4096
    """Bytes that the output of a program or a server may have and still be shown whole."""
    preview: int = 2048
    """Bytes of a preview."""
    file_bytes: int = 51_200
    """Bytes that reading or searching files may show at once."""
    mode: Mode = "auto"


def is_shown_whole(tool: str, size: int, settings: Offloading) -> bool:
    """Whether an output of so many bytes stands in the view as it is. What was brought back always does."""
    match _KINDS.get(tool, "program"):
        case "whole":
            return True
        case "file":
            return size <= settings.file_bytes
        case "program":
            return size <= settings.threshold


def is_brought_back(tool: str) -> bool:
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


_LEFT_OUT = " left out: the context window is nearly full; "
_NOTE = regex(rf"\n?\[… [\d,]+ characters?{_LEFT_OUT}.* …\]\n?")


def without_note(text: str) -> str:
    """Both ends of an output that was cut, without the note of what is left out between them."""
    return _NOTE.sub("\n", text, 1).strip("\n")


def _without_middle(output: ToolOutput, keep: int, how: str) -> ToolOutput:
    pictures = f"its pictures ({len(output.images)}) are not shown, look at one at a time" if output.images else ""
    framed = _in_frame(output.text)
    if framed is not None:
        opening, shown, ending = framed
        note = f"[… {pictures} …]" if pictures else "[…]"
        return replace(output, text=f"{opening}\n{_ends(shown, keep, lambda _: note)}{ending}", images=())

    def note_of(left_out: int) -> str:
        where = "; ".join(filter(None, (how or "ask for less at a time to see it", pictures)))
        return f"[… {counted(left_out, 'character')}{_LEFT_OUT}{where} …]"

    return replace(output, text=_ends(output.text, keep, note_of), images=())


def _ends(text: str, keep: int, note_of: Callable[[int], str]) -> str:
    """Both ends of a text, of so many characters together, with a note between them of how many are left out."""
    head = int(keep * _HEAD)
    tail = max(len(text) - (keep - head), head)
    return "\n".join(part for part in (text[:head], note_of(tail - head), text[tail:]) if part)


def readable(data: bytes) -> str:
    """What a program printed, as a terminal would leave it."""
    return plain(data.decode("utf-8", "replace"))


@dataclass(slots=True)
class Skim:
    """Looks at an output as it goes by, in pieces of any size, and remembers what a preview may need."""

    size: int = 0
    newlines: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytes = b""
    _open: bytes = b""
    """The beginning of a line that has not ended yet."""
    _found: list[tuple[int, bytes]] = field(default_factory=list)
    _found_bytes: int = 0

    def take(self, chunk: bytes) -> None:
        if len(self._head) < _KEPT:
            self._head += chunk[: _KEPT - len(self._head)]
        self._tail = chunk[-_KEPT:] if len(chunk) >= _KEPT else (self._tail + chunk)[-_KEPT:]
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
        ends = bytes(self._head) if self.size <= _KEPT else bytes(self._head) + self._tail
        return is_mostly_noise(ends.decode("utf-8", "replace"))

    def _look(self, chunk: bytes) -> None:
        """Notes lines that tell of errors, until there are more than enough."""
        if self._found_bytes > 8 * _MATCHES:
            return
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._open = (self._open + chunk)[:_KEPT]
            return
        text, number = self._open + chunk[:end], self.newlines + 1
        self._open = chunk[end:][:_KEPT]
        for line_number, line in _telling(text, number):
            self._found.append((line_number, line))
            self._found_bytes += len(line)
            if self._found_bytes > 8 * _MATCHES:
                return

    def preview(self, settings: Offloading) -> str:
        """Head, tail and the lines between them that tell of errors."""
        if self.is_binary:
            return f"not text; it begins with {bytes(self._head[:32]).hex(' ')}"
        most_head = int(settings.preview * _HEAD)
        most_tail = settings.preview - most_head
        if self.lines <= 3:
            return self._middle_left_out(most_head, most_tail)
        head = _whole_lines(self._head, most_head, ends_open=self.size > len(self._head))
        tail = list(reversed(_whole_lines(self._tail, most_tail, from_end=True, ends_open=self.size > len(self._tail))))
        first, last = len(head), max(self.lines - len(tail) + 1, len(head) + 1)
        tail = tail[len(tail) - (self.lines - last + 1) :]
        shown = [*head]
        if last > first + 1:
            shown.append(f"[… lines {first + 1}-{last - 1} left out …]")
        shown += tail
        between = [(number, line) for number, line in self._found if first < number < last]
        return "\n".join(shown) + _matches(between)

    def _middle_left_out(self, most_head: int, most_tail: int) -> str:
        """Both ends of an output that has hardly a line end."""
        head, tail = bytes(self._head[:most_head]), self._tail[-most_tail:]
        note = f"[… bytes {len(head)}-{self.size - len(tail)} left out …]"
        return f"{_decoded(head)}\n{note}\n{_decoded(tail)}"


def _telling(text: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a text that tell of errors, with their numbers."""
    at, number = 0, first
    small = text.lower()
    places = {needle: small.find(needle) for needle in _NEEDLES}
    while places := {needle: place for needle, place in places.items() if place >= 0}:
        place = min(places.values())
        start, end = text.rfind(b"\n", 0, place) + 1, text.find(b"\n", place)
        end = len(text) if end < 0 else end
        number += text.count(b"\n", at, start)
        yield number, text[start:end][: 4 * _LONGEST]
        at = start
        places = {needle: place if place > end else small.find(needle, end) for needle, place in places.items()}


def _matches(found: Sequence[tuple[int, bytes]]) -> str:
    shown, left = list[str](), _MATCHES
    for number, line in found:
        text = f"{number}: {_cut(_decoded(line).strip())}"
        left -= len(text.encode()) + 1
        if left < 0 and shown:
            break
        shown.append(text)
    return "\nmatches: " + "\n".join(shown) if shown else ""


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
        text = _cut(_decoded(line))
        most -= len(text.encode()) + 1
        if most < 0 and shown:
            break
        shown.append(text)
    return shown


def _decoded(data: bytes) -> str:
    return plain(data.decode("utf-8", "replace"))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}… [cut]"


def stored_form(tool: str, ref: str, size: int, lines: int, shown: str) -> str:
    """What stands for an output that is kept apart: how large it is, a part of it, and how to see the rest."""
    sizes = f"{counted(size, 'byte')}, {counted(lines, 'line')}"
    return f'[Tool result stored — {sizes} from "{tool}".\n{shown}]\n{how_to_see(ref)}'


def preview_of(text: str, settings: Offloading = Offloading()) -> tuple[str, int, int]:  # noqa: B008  # a frozen value
    """What is shown of a text that stood whole in the view, and how many bytes and lines it has."""
    skim = Skim()
    skim.take(text.encode("utf-8", "surrogatepass"))
    return skim.preview(settings), skim.size, skim.lines


_SEEN = 'Use the "read_result" tool with ref_id='


def how_to_see(ref: str) -> str:
    return f'{_SEEN}"{ref}" to read specific portions.'


def cut_form(skim: Skim, ref: str | None, settings: Offloading) -> str:
    """Both ends of an output, as much of it as may be shown whole, and where the rest is, if it is kept."""
    larger = Offloading(preview=settings.threshold)
    note = f'cut; ref_id="{ref}" has all of it' if ref else "cut; the rest could not be kept"
    return f"{skim.preview(larger)}\n[{counted(skim.size, 'byte')}, {counted(skim.lines, 'line')}, {note}]"


_STORED = regex(r'^\[Tool result stored — [\d,]+ bytes?, [\d,]+ lines? from "[^"\n]*"\.$', re.MULTILINE)


def is_preview(text: str) -> bool:
    """Whether a text is what stands for an output that is kept apart."""
    return _STORED.match(text) is not None


def without_frame(text: str) -> str:
    """What an output said, without the words around it that tell where it is kept."""
    return _STORED.sub("", text)


def frame_of(output: ToolOutput) -> str:
    """What belongs to an output and is not among the bytes that are kept of it. In sessions of earlier versions it
    stands behind what says where those are."""
    if output.frame or not is_preview(output.text):
        return output.frame
    _, seen, behind = output.text.rpartition(f"]\n{_SEEN}")
    return behind.partition("\n")[2] if seen else ""  # a preview that was cut itself says nothing of it any more


def unframed(text: str) -> str:
    """The same of an output that is kept apart, without the lines that were found in it and how to see the rest: the
    parts of it that are shown, and what stands behind it."""
    if not is_preview(text):
        return text
    framed = _in_frame(text)
    return "\n".join((framed[1], *framed[2].split("\n")[2:])) if framed else text.partition("\n")[2]


def _in_frame(text: str) -> tuple[str, str, str] | None:
    """What stands for an output that is kept apart, in three: how large it is, the parts that are shown, without the
    lines that were found in it, and how to see the rest, with what stands behind it. None when part of that is gone."""
    opening, _, inside = text.partition("\n")
    shown, seen, behind = inside.rpartition(f"]\n{_SEEN}")
    if not is_preview(opening) or not seen:
        return None
    found = [match.start() for match in re.finditer(r"\nmatches: \d+: ", shown)]
    return opening, shown[: found[-1]] if found else shown, seen + behind
