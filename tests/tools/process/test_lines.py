"""Lines of any length out of pieces of any size."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.process.lines import LineBuffer, TruncatedLine


@given(st.lists(st.binary(max_size=40), max_size=10), st.data())
def test_lines_come_out_whole_however_the_bytes_are_split(lines: list[bytes], data: st.DataObject) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    reader = LineBuffer(1000)
    assert [line for piece in pieces for line in reader.feed(piece)] == lines


def test_of_a_line_that_is_too_long_both_ends_are_kept() -> None:
    reader = LineBuffer(10_000)
    pieces = [b"short\n", b"a" * 9000, b"b" * 9000, b"c" * 9000 + b"\nnext\n"]
    assert [line for piece in pieces for line in reader.feed(piece)] == [
        b"short",
        TruncatedLine(b"a" * 4096, b"c" * 4096, 27_000),
        b"next",
    ]


def test_a_line_that_does_not_end_is_not_held() -> None:
    reader = LineBuffer(1000)
    for _ in range(100):
        assert reader.feed(b"x" * 1000) == []
    assert reader.size == 100_000
    assert len(reader._buffer) + len(reader._tail) <= 2 * 4096
