"""Parts of kept outputs, as a model reads them."""

import contextlib
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.archive.content import LogFile
from ebbtide.store.blobs import BlobStore
from ebbtide.tools.base import ImageData, Result, Tool, ToolError, Workspace
from ebbtide.tools.outputs.cap import MAX_ANSWER_BYTES, RESERVED_NOTE_BYTES, Cap
from ebbtide.tools.outputs.stored_content import Content, ContentWithNote, InMemoryContent, StoredContent
from ebbtide.tools.read_result import (
    ESCAPED_NOTE,
    HEXADECIMAL_NOTE,
    ReadResult,
    build_matching_lines_result,
    unambiguous_text,
)
from ebbtide.tools.search import output_search, scan
from ebbtide.tools.tool_output_cache import ToolOutputCache, ToolOutputCacheGrep
from tests.kit.read_result_text import as_bytes

LOG = b"".join(b"line %d%s\n" % (number, b" error" if number % 500 == 0 else b"") for number in range(1, 2001))


async def ask(workspace: Workspace, found: Content | StoredContent, tool: Tool | None = None, **arguments: Any) -> str:
    async def find(ref: str) -> StoredContent:
        assert ref == "r1"
        return found if isinstance(found, StoredContent) else StoredContent("r1", found)

    result = await (tool or ReadResult()).run(
        {"ref_id": "r1", **arguments}, replace(workspace, get_stored_content=find)
    )
    assert replace(result, extent=None) == Result(result.text)
    return result.text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"limit": 20}, "line 1\nline 2\nline 3\n(bytes 0-20 of 18,917; continue at offset=20)"),
        ({"offset": 7, "limit": 6}, "line 2\n(bytes 7-13 of 18,917; continue at offset=13)"),
        ({"offset": 18_901}, "line 2000 error\n\n(bytes 18901-18917 of 18,917)"),
        ({"lines": "2-3"}, "2\tline 2\n3\tline 3\n(lines 2-3 of 2,000)"),
        ({"lines": " L7 "}, "7\tline 7\n(lines 7-7 of 2,000)"),
        ({"lines": "1999-9999"}, "1999\tline 1999\n2000\tline 2000 error\n(lines 1999-2000 of 2,000)"),
        ({"pattern": "e 15.0 error$"}, "1500:line 1500 error"),
        ({"pattern": "error", "before": 1, "after": 1, "lines": "600-1500"},
         "999-line 999\n1000:line 1000 error\n1001-line 1001\n--\n1499-line 1499\n1500:line 1500 error"),
        ({"pattern": "line 1[0-9] ?$", "lines": "12-13"}, "12:line 12\n13:line 13"),
        ({"pattern": "nothing"}, "no lines match"),
    ],
)  # fmt: skip
async def test_a_part_is_shown(arguments: dict[str, Any], text: str, workspace: Workspace) -> None:
    assert await ask(workspace, InMemoryContent(LOG), **arguments) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lines": "5", "offset": 1}, "`lines` cannot be combined with `offset` and `limit`"),
        ({"lines": "0-5"}, '`lines` must be written as "10-50", counted from 1'),
        ({"lines": "9-5"}, '`lines` ends before it begins: write "5-9"'),
        ({"lines": "2001-2002"}, "`r1` has 2,000 lines: 2001 is beyond its end"),
        ({"offset": 10**6}, "`r1` has 18,917 bytes: offset=1000000 is beyond its end"),
        ({"pattern": "("}, "the pattern is not a regular expression"),
    ],
)
async def test_what_cannot_be_shown_is_explained(arguments: dict[str, Any], message: str, workspace: Workspace) -> None:
    with pytest.raises(ToolError) as caught:
        await ask(workspace, InMemoryContent(LOG), **arguments)
    assert str(caught.value).startswith(message)


async def test_a_reference_may_name_the_part(workspace: Workspace) -> None:
    found = StoredContent("r1", InMemoryContent(LOG), line_range=(2, 2))
    assert await ask(workspace, found) == "2\tline 2\n(lines 2-2 of 2,000)"
    found = StoredContent("r1", InMemoryContent(LOG), byte_range=(7, 13))
    assert await ask(workspace, found) == "line 2\n(bytes 7-13 of 18,917; continue at offset=13)"
    assert await ask(workspace, found, lines="3") == "3\tline 3\n(lines 3-3 of 2,000)"


async def test_an_answer_is_limited_and_says_how_to_go_on(workspace: Workspace) -> None:
    large = InMemoryContent(LOG * 50)
    answer = await ask(workspace, large, lines="1-100000")
    assert MAX_ANSWER_BYTES - 600 < len(answer) <= MAX_ANSWER_BYTES
    last = int(answer.rpartition("\n")[0].rpartition("\n")[2].partition("\t")[0])
    assert answer.endswith(f'(lines 1-{last} of 100,000; continue at lines="{last + 1}-100000")')
    assert (await ask(workspace, large, lines=f"{last + 1}-100000")).startswith(f"{last + 1}\t")
    answer = await ask(workspace, large, limit=10**9)
    assert answer.endswith("\n(bytes 0-51000 of 945,850; continue at offset=51000)")
    assert len(answer) <= MAX_ANSWER_BYTES
    answer = await ask(workspace, large, pattern="line")
    assert len(answer) <= MAX_ANSWER_BYTES
    last = int(answer.splitlines()[-2].partition(":")[0])
    assert answer.endswith(f'(there is more; continue at lines="{last + 1}-" with the same pattern)')
    assert (await ask(workspace, large, pattern="line", lines=f"{last + 1}-")).startswith(f"{last + 1}:")


async def test_a_long_line_is_cut_and_its_rest_can_be_read(workspace: Workspace) -> None:
    line = b"x" * 1_999_990 + b"needle" + b"y" * 3_000_000
    content = InMemoryContent(b"first\n" + line + b"\nlast")
    answer = await ask(workspace, content, lines="2-3")
    assert answer == "2\t" + "x" * 2000 + "… [cut: 4,999,996 bytes; continue at offset=2006]\n3\tlast\n(lines 2-3 of 3)"
    answer = await ask(workspace, content, pattern="needle")
    assert answer == "2:[byte 1,999,790 of the line] " + "x" * 200 + "needle" + "y" * 194
    at = 6 + 1_999_990
    assert await ask(workspace, content, offset=at, limit=6) == (
        f"needle\n(bytes {at}-{at + 6} of 5,000,007; continue at offset={at + 6})"
    )


async def test_a_match_at_the_seam_of_a_long_line_is_found_once(workspace: Workspace) -> None:
    content = InMemoryContent(b"x" * (scan.PIECE_BYTES - 3) + b"needle" + b"y" * scan.PIECE_BYTES)
    answer = await ask(workspace, content, pattern="needle")
    assert answer.count("needle") == 1
    assert answer.startswith(f"1:[byte {scan.PIECE_BYTES - 203:,} of the line] xxx")


async def test_a_pattern_that_blows_up_is_ended(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """RE2 has no way to say `\\1`, so `re` takes the pattern."""
    monkeypatch.setattr(output_search, "SEARCH_TIMEOUT_S", 1.0)
    content = InMemoryContent(b"found\n" + b"a" * 5000 + b"b\n")
    answer = await ask(workspace, content, pattern=r"found|(a+)+\1$")
    assert answer == (
        "1:found\n(stopped after 1 s at line 1 of 2, byte 0 of 5,008; "
        "so lines may be missing: use a simpler `pattern` or other `lines`)"
    )


async def test_a_pattern_that_would_blow_up_takes_no_longer_than_others(workspace: Workspace) -> None:
    content = InMemoryContent((b"a" * 5000 + b"b\n") * 200 + b"aaa\n")
    assert await ask(workspace, content, pattern="(a+)+$") == "201:aaa"


async def test_a_search_that_is_ended_says_how_far_it_got_and_goes_on_from_there(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are done are told of at once here, and the slow line stands in the third."""
    monkeypatch.setattr(output_search, "SEARCH_TIMEOUT_S", 1.5)
    line = b"x" * 1023 + b"\n"
    content = InMemoryContent(b"one found\n" + line * 2048 + b"a" * 5000 + b"b\n" + b"two found\n")
    answer = await ask(workspace, content, pattern=r"found$|(a+)+\1$")
    first, note = answer.split("\n")
    assert first == "1:one found"
    match = re.fullmatch(
        r"\(stopped after 2 s at line ([\d,]+) of 2,051, byte ([\d,]+) of 2,102,174; "
        r'continue at lines="(\d+)-" with the same pattern\)',
        note,
    )
    assert match is not None
    assert 1 < int(match[3]) <= 2050
    assert await ask(workspace, content, pattern="found$", lines=f"{match[3]}-") == "2051:two found"
    cache = ToolOutputCacheGrep()
    assert await ask(workspace, content, cache, pattern="found$", lines=f"{match[3]}-") == "2051:two found"


async def test_a_search_goes_on_inside_a_line_that_is_longer_than_what_is_searched_at_once(
    workspace: Workspace,
) -> None:
    """Of a line without an end, `lines` can name no part."""
    piece = b"x" * (scan.PIECE_BYTES - 1) + b"."
    content = InMemoryContent(b"first\n" + b"".join(b"needle%d" % number + piece for number in range(5)))
    found, offset = list[str](), ""
    while True:
        start = int(offset) if offset else None
        note = (
            await build_matching_lines_result(
                StoredContent("r1", content), r"needle\d", (0, 0), None, Cap(RESERVED_NOTE_BYTES + 500), start=start
            )
        ).text
        found += re.findall(r"needle\d", note)
        going_on = re.search(r"continue at offset=(\d+) with the same pattern\)$", note)
        if going_on is None:
            break
        offset = going_on[1]
    assert found == [f"needle{number}" for number in range(5)]
    at = content.line_start(2) + 3 * (len(piece) + 7)
    assert (await ask(workspace, content, pattern=r"needle\d", offset=at)).startswith(
        f"2:[byte {at - 6:,} of the line] needle3xxx"
    )


async def test_a_search_that_is_ended_inside_a_long_line_goes_on_inside_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_search, "SEARCH_TIMEOUT_S", 1.5)
    slow = b"a" * 5000 + b"b"
    content = InMemoryContent(b"x" * 3 * scan.PIECE_BYTES + slow + b"needle" + b"y" * scan.PIECE_BYTES)
    note = await ask(workspace, content, pattern=r"(a+)+\1$")
    match = re.fullmatch(
        r"\(stopped after 2 s at line 1 of 1, byte [\d,]+ of 4,199,311; "
        r"continue at offset=(\d+) with the same pattern\)",
        note,
    )
    assert match is not None
    assert scan.PIECE_BYTES <= int(match[1]) <= 3 * scan.PIECE_BYTES
    assert "needle" in await ask(workspace, content, pattern="needle", offset=int(match[1]))


SPELLINGS = st.sampled_from(
    ["a", "b", ".", "^", "$", "a+", "(a|b)*", "[^a]", r"\d", r"\w+", r"\s", r"\bb", "é", "(?i:A)", "x?", ".*b$", "^$",
     r"\.", "[ab]{2}"],
)  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(
        [b"a", b"b", b"ab", b" ", b"1", "é".encode(), "１".encode(), b"\xff", b"\x1c", b"\n", b"\r\n", b"B."]
    ),
    max_size=30,
)


@given(st.lists(SPELLINGS, min_size=1, max_size=4).map("".join), TEXTS.map(b"".join), st.integers(0, 2))
def test_both_engines_find_the_same(pattern: str, data: bytes, again: int) -> None:
    data = scan._without_carriage_returns(data)
    again = min(again, len(data.split(b"\n")[0])) if data.isascii() else 0  # pieces may part a character
    block = scan.ScanBlock(1, 0, again, data)
    fast, slow = scan.block_searcher(pattern, print), scan._create_line_searcher(pattern, print)
    assert [data[:start] for start, _ in fast(block)] == [data[:start] for start, _ in slow(block)]


@given(TEXTS.map(b"".join), st.integers(0, 2), st.integers(0, 2), st.integers(1, 9), st.sampled_from([4, 1 << 20]))
def test_the_lines_around_matches_are_those_of_the_text(
    data: bytes, before: int, after: int, last: int, piece: int
) -> None:
    """Compared with the plainest way to say it."""
    lines = [line.rstrip(b"\r") for line in data.removesuffix(b"\n").split(b"\n")] if data else []
    hits = [number for number, line in enumerate(lines, 1) if b"a" in line and number <= last]
    wanted = {n for hit in hits for n in range(hit - before, hit + after + 1) if 1 <= n <= min(last, len(lines))}
    expected = [(number, lines[number - 1].decode("utf-8", "replace"), number in hits) for number in sorted(wanted)]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        output = scan._MatchPrinter(last, before, after, 10**9)
        search = scan.block_searcher("a", print)
        rows = [line for line in data.removesuffix(b"\n").split(b"\n")] if data else []
        number = 1
        for at in range(0, len(rows), piece):
            part = b"\n".join(line.rstrip(b"\r") for line in rows[at : at + piece])
            if not output.print_matches(scan.ScanBlock(number, 0, 0, part), search):
                break
            number += len(rows[at : at + piece])
    found = [record for record in map(json.loads, printed.getvalue().splitlines()) if len(record) == 4]
    assert [tuple(record[:3]) for record in found] == expected


async def test_bytes_that_are_no_text_can_be_read(workspace: Workspace) -> None:
    assert await ask(workspace, InMemoryContent(b"\0\1\2\xff" * 8), offset=4) == (
        "(not text; shown in hexadecimal)\n"
        "00 01 02 ff 00 01 02 ff 00 01 02 ff 00 01 02 ff\n"
        "00 01 02 ff 00 01 02 ff 00 01 02 ff\n"
        "(bytes 4-32 of 32)"
    )
    assert await ask(workspace, InMemoryContent(b"caf\xe9 with a long enough text\n")) == (
        f"{ESCAPED_NOTE}\ncaf\\xe9 with a long enough text\n\n(bytes 0-29 of 29)"
    )
    assert (
        await ask(workspace, InMemoryContent("é".encode() * 3), limit=3) == "é\n(bytes 0-2 of 6; continue at offset=2)"
    )
    assert await ask(workspace, InMemoryContent(b"")) == "`r1` is empty"


pieces = st.sampled_from(
    [b"plain text\n", "日本 é\r\n".encode(), b"\\xff \\\\", b"\xff\xfe", b"\0", HEXADECIMAL_NOTE.encode()]
)
some_bytes = st.binary(min_size=1) | st.lists(pieces, min_size=1, max_size=30).map(b"".join)


@given(some_bytes, st.integers(1, 60))
def test_any_bytes_come_back_as_they_were(data: bytes, limit: int) -> None:
    parts, at = [], 0
    while at < len(data):
        piece = data[at : at + limit]
        text, size = unambiguous_text(piece, is_at_end=at + len(piece) >= len(data))
        parts.append(as_bytes(text))
        assert len(parts[-1]) == size > 0
        at += size
    assert b"".join(parts) == data


@given(
    st.lists(st.sampled_from([b"", b"one", b"two"]), max_size=5).map(b"\n".join),
    st.sampled_from(["end", "a\nb", "a\n"]),
)
def test_a_frame_reads_as_the_end_of_what_it_belongs_to(data: bytes, frame: str) -> None:
    edge = b"\n" if data and not data.endswith(b"\n") else b""
    framed, whole = ContentWithNote(InMemoryContent(data), frame), InMemoryContent(data + edge + frame.encode())
    assert (framed.size, framed.lines) == (whole.size, whole.lines)
    numbers = range(1, whole.lines + 3)
    assert [framed.line_start(number) for number in numbers] == [whole.line_start(number) for number in numbers]
    places = range(whole.size + 1)
    assert [framed.line_end(place) for place in places] == [whole.line_end(place) for place in places]
    for start, end in itertools.combinations(places, 2):
        assert b"".join(framed.chunks(start, end)) == whole.read(start, end - start) == framed.read(start, end - start)


async def test_a_picture_comes_back_as_a_picture(workspace: Workspace) -> None:
    async def find(ref: str) -> StoredContent:
        return StoredContent(ref, InMemoryContent(b"\x89PNG..."), "image/png")

    result = await ReadResult().run({"ref_id": "r1"}, replace(workspace, get_stored_content=find))
    assert result == Result("image, image/png, 7 bytes", images=(ImageData("image/png", b"\x89PNG..."),))


async def test_the_names_of_other_programs_are_answered(workspace: Workspace) -> None:
    content = InMemoryContent(LOG)
    answer = await ask(workspace, content, ToolOutputCache())
    assert answer.startswith("1\tline 1\n")
    assert answer.endswith("\n200\tline 200\n(lines 1-200 of 2,000)")
    answer = await ask(workspace, content, ToolOutputCache(), offset=9, limit=2)
    assert answer == "10\tline 10\n11\tline 11\n(lines 10-11 of 2,000)"
    named = StoredContent("r1", content, line_range=(5, 6))
    assert await ask(workspace, named, ToolOutputCache()) == "5\tline 5\n6\tline 6\n(lines 5-6 of 2,000)"
    assert await ask(workspace, named, ToolOutputCache(), offset=0, limit=1) == "1\tline 1\n(lines 1-1 of 2,000)"
    answer = await ask(workspace, content, ToolOutputCacheGrep(), pattern="1500", before=1)
    assert answer == "1499-line 1499\n1500:line 1500 error"


async def test_without_an_archive_nothing_is_found(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="nothing is stored"):
        await ReadResult().run({"ref_id": "r1"}, workspace)


@pytest.mark.parametrize("data", [b"", b"one", b"one\n", b"a\n\nb", LOG, b"\n" * 9, b"z" * 600_000 + b"\n" + LOG * 30])
def test_every_kind_of_content_reads_the_same(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    blobs = BlobStore(tmp_path / "b")
    contents: list[Content] = [InMemoryContent(data), LogFile(path), blobs.open(blobs.put([data], "s").digest)]
    assert len({(content.size, content.lines) for content in contents}) == 1
    numbers = sorted({1, 2, 3, contents[0].lines // 2, contents[0].lines, contents[0].lines + 1})
    assert len({tuple(content.line_start(number) for number in numbers) for content in contents}) == 1
    starts = [contents[0].line_start(number) for number in numbers]
    assert len({tuple(content.line_end(start) for start in starts) for content in contents}) == 1
    for start, end in itertools.combinations([0, 1, 5, len(data) // 2, len(data)], 2):
        assert {b"".join(content.chunks(start, end)) for content in contents} == {data[start:end]}
        assert {content.read(start, end) for content in contents} == {data[start : start + end]}
    for content in contents:
        content.close()
