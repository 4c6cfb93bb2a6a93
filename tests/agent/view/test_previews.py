"""What is shown of an output."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.agent.tokens.estimate import estimate_output
from ebbtide.agent.view.previews import (
    OffloadLimits,
    StreamedPreview,
    cut_output,
    should_show_in_full,
    stored_excerpt,
    text_without_insertions,
    truncated_excerpt,
)

LOG = b"".join(b"line %d\n" % number for number in range(1, 1201))


def skimmed(data: bytes, piece: int = 1 << 16) -> StreamedPreview:
    skim = StreamedPreview()
    for at in range(0, len(data), piece):
        skim.add_chunk(data[at : at + piece])
    return skim


@pytest.mark.parametrize(
    ("tool", "size", "is_whole"),
    [
        ("bash", 4096, True),
        ("bash", 4097, False),
        ("mcp_fetch", 4097, False),
        ("read", 51_200, True),
        ("grep", 51_201, False),
        ("read_result", 10**9, True),
        ("tool_output_cache", 10**9, True),
        ("tool_output_cache_grep", 10**9, True),
        ("tool_search", 16_000, True),
        ("recall", 10**9, True),
        ("ask_user", 10**9, True),
        ("task", 51_200, True),
        ("task", 51_201, False),
    ],
)
def test_what_is_too_large_depends_on_the_tool(tool: str, size: int, is_whole: bool) -> None:
    assert should_show_in_full(ToolCall("1", tool, {}), size, OffloadLimits()) is is_whole


@pytest.mark.parametrize(
    ("command", "size", "is_whole"),
    [
        ("sed -n 1,400p a.py", 51_200, True),
        ("git diff | head -500", 51_201, False),
        ("make test", 4097, False),
        (7, 4097, False),
    ],
)
def test_what_shows_files_has_the_limit_of_files(command: object, size: int, is_whole: bool) -> None:
    assert should_show_in_full(ToolCall("1", "bash", {"command": command}), size, OffloadLimits()) is is_whole


def test_a_preview_has_this_form() -> None:
    log = LOG.replace(b"line 600\n", b"an Error here\n").replace(b"line 700\n", b"3 FAILED\n")
    skim = skimmed(log)
    excerpt = skim.excerpt_and_error_lines(OffloadLimits(preview_bytes=120))
    assert stored_excerpt("bash", "r12", skim.size, skim.line_count, *excerpt).text == (
        '[Tool result stored — 10,898 bytes, 1,200 lines from "bash".\n'
        "line 1\nline 2\n"
        "[… lines 3-1196 left out …]\n"
        "line 1197\nline 1198\nline 1199\nline 1200\n"
        "matches: 698- line 698\n699- line 699\n700: 3 FAILED\n701- line 701\n702- line 702\n"
        "600: an Error here]\n"
        'Use the "read_result" tool with ref_id="r12" to read specific portions.'
    )


@given(st.lists(st.binary(max_size=300), min_size=1).map(b"\n".join), st.integers(1, 400), st.integers(50, 3000))
def test_a_preview_is_the_same_however_the_output_came_and_stays_small(data: bytes, piece: int, most: int) -> None:
    settings = OffloadLimits(preview_bytes=most)
    text = skimmed(data, piece).preview(settings)
    assert text == skimmed(data, max(len(data), 1)).preview(settings)
    assert len(text) <= most + 512 + 4 * 420 + 200 + 900
    assert skimmed(data, piece).size == len(data)
    assert skimmed(data, piece).newline_count == data.count(b"\n")


def test_long_lines_are_cut() -> None:
    text = skimmed(b"x" * 9000 + b"\n" + LOG).preview(OffloadLimits())
    assert text.splitlines()[0] == "x" * 400 + "… [cut]"


def test_one_long_line_shows_both_of_its_ends() -> None:
    text = skimmed(b"a" * 50_000 + b"z" * 50_000).preview(OffloadLimits(preview_bytes=10))
    assert text == "aaa\n[… bytes 3-99993 left out …]\nzzzzzzz"


def test_bytes_that_are_no_text_are_not_shown_as_text() -> None:
    assert skimmed(bytes(range(8)) * 1000).preview(OffloadLimits()).startswith("not text; it begins with 00 01 02 03")


def test_lines_that_tell_of_errors_are_limited() -> None:
    kinds = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(600)]
    log = b"".join(b"error: %s %s\nall is well\n" % (kind.encode(), b"x" * 100) for kind in kinds)
    text = skimmed(log).preview(OffloadLimits())
    matches = text.partition("\nmatches: ")[2]
    assert 900 < len(matches.encode()) <= 1024
    assert len(text.encode()) <= 2048 + 200


def test_a_cut_output_says_where_the_rest_is() -> None:
    settings = OffloadLimits(max_output_bytes=30)
    assert truncated_excerpt(skimmed(LOG), "r3", settings).text == (
        "line 1\n[… lines 2-1198 left out …]\nline 1199\nline 1200\n"
        '[10,893 bytes, 1,200 lines, cut; `read_result` with ref_id="r3" shows all of it]'
    )
    assert truncated_excerpt(skimmed(LOG), None, settings).text.endswith("cut; the rest could not be kept]")


@given(st.integers(0, 900), st.integers(5, 400))
def test_of_a_preview_for_which_there_is_little_room_the_text_is_cut_and_what_it_says_of_itself_stays(
    room: int, width: int
) -> None:
    skim = skimmed(b"".join(b"%d %b\n" % (number, b"word " * (width // 5)) for number in range(8_000 // width + 1)))
    part = stored_excerpt("bash", "r7", skim.size, skim.line_count, *skim.excerpt_and_error_lines(OffloadLimits()))
    text = f"{part.text}\nexit code 3"
    whole = ToolOutput("c1", text, inserted=part.inserted)
    size = estimate_output(whole)
    least = estimate_output(cut_output(whole, 0, size, estimate_output, "it is kept"))
    cut = cut_output(whole, min(room, size - 1), size, estimate_output, "it is kept")
    assert (cut.text.split("\n")[0], cut.text.split("\n")[-2:]) == (text.split("\n")[0], text.split("\n")[-2:])
    assert estimate_output(cut) <= max(room, least) < 200 + room
    assert room < 200 or text_without_insertions(cut.text, cut.inserted).startswith("0 word")


def test_what_an_output_said_is_known_apart_from_what_the_program_says_of_it() -> None:
    ends, matches = skimmed(LOG.replace(b"line 600\n", b"an Error\n")).excerpt_and_error_lines(
        OffloadLimits(preview_bytes=60)
    )
    part = stored_excerpt("bash", "r1", 9000, 1200, ends, matches)
    assert text_without_insertions(f"{part.text}\nexit code 9", part.inserted) == f"{ends}\nexit code 9"
    cut = truncated_excerpt(skimmed(LOG), "r3", OffloadLimits(max_output_bytes=30))
    assert text_without_insertions(f"{cut.text}\nexit code 9", cut.inserted) == (
        "line 1\n[… lines 2-1198 left out …]\nline 1199\nline 1200\nexit code 9"
    )
    assert text_without_insertions("[Tool result stored", ()) == "[Tool result stored"
    assert (ToolOutput("c", cut.text, inserted=cut.inserted).is_part, ToolOutput("c", part.text).is_part) == (
        True,
        False,
    )


@given(st.text("ab\n", max_size=80), st.text("cd\n", max_size=80), st.integers(0, 160))
def test_of_a_preview_that_is_cut_the_program_s_words_stay_known(head: str, tail: str, room: int) -> None:
    heading, seen = "PROGRAM SAYS THIS:\n", "\nAND SAYS THAT"
    text = f"{heading}{head}{seen}\n{tail}"
    inserted = (0, len(heading)), (len(heading) + len(head), len(heading) + len(head) + len(seen))
    output = ToolOutput("c", text, inserted=inserted)
    cut = cut_output(output, min(room, len(head) - 1), len(text), lambda excerpt: 0, "how")
    assert (cut.text.startswith(heading), cut.text.endswith(f"{seen}\n{tail}")) == (True, True)
    assert not set(text_without_insertions(cut.text, cut.inserted)) - set("abcd\n[…]")
    plain = replace(output, inserted=inserted[1:])
    room = min(room, len(text) - 1)
    cut = cut_output(plain, room, len(text), lambda preview_text: 0, "how")
    words = text_without_insertions(cut.text, cut.inserted)
    assert not set(words) - set("abcd\n" + heading)
    assert all(0 <= start < end <= len(cut.text) for start, end in cut.inserted)
