"""Lines of what comes in pieces."""

import os
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.headless.line_reader import InputLine, LineSplitter, OversizedLine, is_still_read, read_lines

LONGEST = 5


def split(data: bytes, *cuts: int) -> list[InputLine]:
    splitter, found = LineSplitter(LONGEST), list[InputLine]()
    for start, end in pairwise(sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})):
        found += splitter.feed(data[start:end])
    return [*found, *splitter.end()]


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line)), st.lists(st.integers(0, 60)))
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    expected = [line if len(line) <= LONGEST else OversizedLine(len(line)) for line in lines]
    assert split(b"".join(line + b"\n" for line in lines), *cuts) == expected


def test_the_last_line_needs_no_end() -> None:
    assert split(b"a\n\nb", 1, 2) == [b"a", b"", b"b"]
    assert split(b"a\nbcdefgh", 4) == [b"a", OversizedLine(7)]


async def test_a_pipe_is_read_to_its_end() -> None:
    out, goes = os.pipe()
    os.write(goes, b"one\ntwo\nthr")
    os.write(goes, b"ee")
    os.close(goes)
    assert [line async for line in read_lines(out)] == [b"one", b"two", b"three"]
    assert [line async for line in read_lines(out)] == []
    os.close(out)


def test_a_pipe_says_whether_somebody_holds_its_other_end() -> None:
    out, goes = os.pipe()
    assert is_still_read(goes)
    os.close(out)
    assert not is_still_read(goes)
    os.close(goes)
