"""The `recall` tool: what it asks for, and how it shows what is found."""

import base64
import json
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from ebbtide.agent.calls.permission_request import PermissionRequest as Call
from ebbtide.agent.calls.policy import Policy, decide
from ebbtide.agent.config.options import PERMISSION_MODES
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.tools.base import ImageData, ToolError, Workspace
from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tools.outputs.cap import MAX_ANSWER_BYTES, RESERVED_NOTE_TOKENS
from ebbtide.tools.outputs.recall_results import RecalledItem, RecallQuery, RecallResult
from ebbtide.tools.outputs.recall_scope import RecallScope
from ebbtide.tools.outputs.stored_content import Content, InMemoryContent, StoredContent
from ebbtide.tools.recall import Recall, parse_time

AT = datetime(2026, 11, 22, 4, 30).timestamp()
ONE = RecalledItem("r1", "output", "", AT, "Viewed a.py – 2 lines", "x = 1\ny = 2", "read", "a.py")
TEXT = b"".join(b"line %d%s\n" % (number, b" error" if number % 50 == 0 else b"") for number in range(1, 1001))


async def look_up(workspace: Workspace, memory: RecallResult, **arguments: Any) -> tuple[str, RecallQuery]:
    asked: list[RecallQuery] = []

    async def answer(wanted: RecallQuery) -> RecallResult:
        asked.append(wanted)
        return memory

    result = await Recall().run(arguments, replace(workspace, search_history=answer))
    return result.text, asked[0]


async def fetch(workspace: Workspace, content: Content, media_type: str = "text/plain", **arguments: Any) -> str:
    async def find(ref: str, scope: RecallScope | None) -> StoredContent:
        return StoredContent(ref, content, media_type)

    text = (await Recall().run({"ref_id": "r1", **arguments}, replace(workspace, fetch_stored_content=find))).text
    body, note = text.rsplit("\n", 1)
    assert note.startswith(f"[recall:r1 – {media_type}; truncated: ")
    return body


async def test_an_answer_says_what_it_is_and_how_much_of_it(workspace: Workspace) -> None:
    about = StoredContent(
        "r1",
        InMemoryContent(TEXT),
        kind="output of read",
        paths=("src/a.py", "b.py", "c.py"),
        access_count=2,
        last_accessed_at=AT,
    )

    async def find(ref: str, scope: RecallScope | None) -> StoredContent:
        return about

    async def answer_to(**arguments: object) -> str:
        result = await Recall().run(
            {"ref_id": "r1", **arguments}, replace(workspace, fetch_stored_content=find, estimate_tokens=len)
        )
        content, line = result.text.rsplit("\n", 1)
        assert f"; tokens: {len(content):,}; " in line
        return line.replace(f"tokens: {len(content):,}", "tokens: N")

    begins = "[recall:r1 – output of read; paths: src/a.py, b.py and 1 more; truncated: "
    ends = "; tokens: N; looked up 2 times before, last 2026-11-22 04:30]"
    assert await answer_to(lines="1-2") == f"{begins}no{ends}"
    assert await answer_to(search="line 2$") == f"{begins}no{ends}"
    assert await answer_to(max_tokens=500) == f"{begins}yes{ends}"
    assert await answer_to(max_tokens=500, search="line") == f"{begins}yes{ends}"


async def test_names_of_others_bring_no_reference_into_an_answer(workspace: Workspace) -> None:
    about = StoredContent("r1", InMemoryContent(b"x\n"), kind="output of \x1b[1mmine", paths=("a\n[recall:r9]\x07.py",))

    async def find(ref: str, scope: RecallScope | None) -> StoredContent:
        return about

    lines = (await Recall().run({"ref_id": "r1"}, replace(workspace, fetch_stored_content=find))).text.split("\n")
    assert lines[2].startswith(
        r"[recall:r1 – output of \x1b(1mmine; paths: a\n(recall:r9)\x07.py; truncated: no; tokens: "
    )


async def test_bytes_that_a_reference_names_are_what_is_shown(workspace: Workspace) -> None:
    async def bytes_of(start: int, end: int, **arguments: object) -> tuple[str, str]:
        async def find(ref: str, scope: RecallScope | None) -> StoredContent:
            return StoredContent("r1", InMemoryContent(TEXT), byte_range=(start, end))

        text = (await Recall().run({"ref_id": "r1", **arguments}, replace(workspace, fetch_stored_content=find))).text
        content, _, note = text.rpartition("\n")
        return content, note.split("; ")[1]

    where = f"{len(TEXT):,}"
    reference_line = f'line 1\n\n(bytes 0-7 of {where}; continue at ref_id="r1:B7-")'
    assert await bytes_of(0, 7) == (reference_line, "truncated: no")
    content, truncated = await bytes_of(7, 4096, max_tokens=300)
    assert (content[:7], "; continue at ref_id=" in content, truncated) == ("line 2\n", True, "truncated: yes")
    with pytest.raises(ToolError, match="offset=99999 is beyond its end"):
        await bytes_of(99_999, 100_000)


async def test_what_is_found_names_its_reference_and_shows_where_the_words_stand(workspace: Workspace) -> None:
    other = RecalledItem("ebb://b/c/msg-1", "user", "session c of b", AT, "", "said", searched=3, size=9000)
    text, _ = await look_up(workspace, RecallResult((ONE, other), ("something to know",)), query="x")
    assert text.split("\n") == [
        "(something to know)",
        "[recall:r1] output of read, 2026-11-22 04:30: Viewed a.py – 2 lines",
        "  x = 1",
        "  y = 2",
        "[recall:ebb://b/c/msg-1] user, 2026-11-22 04:30, session c of b (its first 3 of 9,000 bytes are searched)",
        "  said",
    ]


async def test_all_that_may_be_asked_for_is(workspace: Workspace) -> None:
    given = {"query": "a b", "kind": "output", "tool": "read", "path": "src/", "scope": "all", "until": "2026-11-22"}
    _, asked = await look_up(workspace, RecallResult(()), **given)
    until = datetime(2026, 11, 22).timestamp()
    assert asked == RecallQuery("a b", ("output",), "read", "src/", None, until, "all", 20)
    before = time.time()
    _, asked = await look_up(workspace, RecallResult(()), since="1h")
    assert asked.since is not None
    assert before - 3600 <= asked.since <= time.time() - 3600
    assert replace(asked, since=None) == RecallQuery(limit=20)


async def test_nothing_found_says_what_to_try(workspace: Workspace) -> None:
    assert (await look_up(workspace, RecallResult(()), query="x"))[
        0
    ] == "nothing was found: try other words, or fewer filters"


@pytest.mark.parametrize("most", [1, 40, 200, 10**30])
async def test_an_answer_is_never_longer_than_was_asked_for_or_allowed(workspace: Workspace, most: int) -> None:
    many = RecallResult(tuple(replace(ONE, ref=f"r{number}", excerpt="word " * 500) for number in range(100)))
    text, _ = await look_up(workspace, many, query="word", max_tokens=most)
    assert text.startswith("[recall:r0]")
    assert len(text.encode()) <= min(max(3 * most, 80), MAX_ANSWER_BYTES) + 100


@pytest.mark.parametrize("most", [1, 40, 2000, 10**30])
async def test_a_part_of_what_is_kept_says_where_it_goes_on(workspace: Workspace, most: int) -> None:
    text = await fetch(workspace, InMemoryContent(TEXT * 20), max_tokens=most)
    assert text.startswith("1\tline 1\n")
    assert 'continue at lines="' in text
    assert len(text.encode()) <= min(max(3 * most, 200), MAX_ANSWER_BYTES)


KINDS_OF_TEXT = {
    "Chinese": "\n".join("会话的上下文不会丢失" * (n % 40 + 1) for n in range(500)),
    "base64": "\n".join(base64.b64encode(bytes(range(n % 200, n % 200 + 57))).decode() for n in range(500)),
    "JSON on one line": json.dumps(
        [{"id": n, "at": n / 7, "tags": ["a", "b"]} for n in range(5000)], separators=(",", ":")
    ),
    "numbers": "\n".join(str(n) for n in range(30_000)),
    "prose": "every word of it counts, and so does the end of the line\n" * 800,
}


@pytest.mark.parametrize("most", [60, 300, 2000, 12_000])
@pytest.mark.parametrize("kind", KINDS_OF_TEXT)
async def test_the_cap_holds_in_tokens_of_the_session_for_any_text(kind: str, most: int, workspace: Workspace) -> None:
    content = InMemoryContent(KINDS_OF_TEXT[kind].encode())
    for count in (estimate_text, lambda text: len(text.encode())):
        measured = replace(workspace, estimate_tokens=count)
        for arguments in ({}, {"search": "[0-9a-z会]"}):
            text = await fetch(measured, content, max_tokens=most, **arguments)
            assert count(text) <= max(most, most // 2 + 2 * RESERVED_NOTE_TOKENS), (arguments, text[-300:])
    text = await fetch(replace(workspace, estimate_tokens=estimate_text), content, max_tokens=most)
    if most >= 300 and "\n" in KINDS_OF_TEXT[kind]:
        assert (
            estimate_text(text) >= (most - RESERVED_NOTE_TOKENS) * 0.75
        )  # there is more, and most of the room is used


async def test_lines_that_carry_numbers_are_known_by_them(workspace: Workspace) -> None:
    async def find(ref: str, scope: RecallScope | None = None) -> StoredContent:
        content = InMemoryContent(b"41\tdef a():\n42\t    pass\n43\t\n(lines 41-43 of 90)")
        return StoredContent(ref, content, first_line=41, unnumbered_lines=1)

    async def recalled(**arguments: str) -> str:
        text = (
            await Recall().run(
                {"ref_id": "r1", **arguments}, replace(workspace, fetch_stored_content=find, get_stored_content=find)
            )
        ).text
        return text.rsplit("\n", 1)[0]

    assert await recalled(lines="41-42") == "41\tdef a():\n42\t    pass\n(lines 41-42 of 41-43)"
    assert (await recalled()).startswith(
        "41\tdef a():\n42\t    pass\n43\t\n(lines 41-43 of 90)\n(lines 41-43 of 41-43)"
    )
    assert await recalled(search="^def") == "41:def a():\n42-    pass\n43-"
    assert await recalled(search="^41") == "no lines match"
    assert await recalled(search="lines 41") == "no lines match"
    with pytest.raises(ToolError, match="has lines 41-43: 44 is beyond its end"):
        await recalled(lines="44")
    with pytest.raises(ToolError, match="has lines 41-43: 3 is before its beginning"):
        await recalled(lines="1-3")


async def test_a_line_of_which_only_the_beginning_is_shown_is_told_to_be_cut(workspace: Workspace) -> None:
    async def find(ref: str, scope: RecallScope | None = None) -> StoredContent:
        return StoredContent(ref, InMemoryContent(b"short\n" + b"x" * 5000))

    async def is_truncated(**arguments: str) -> str:
        text = (await Recall().run({"ref_id": "r1", **arguments}, replace(workspace, fetch_stored_content=find))).text
        return text.rpartition("truncated: ")[2].partition(";")[0]

    assert (await is_truncated(), await is_truncated(lines="2"), await is_truncated(lines="1")) == ("yes", "yes", "no")


async def test_lines_and_searches_narrow_what_is_shown(workspace: Workspace) -> None:
    assert await fetch(workspace, InMemoryContent(TEXT), lines="2-3") == "2\tline 2\n3\tline 3\n(lines 2-3 of 1,000)"
    found = await fetch(workspace, InMemoryContent(TEXT), search="e 100 error$")
    assert found.split("\n") == ["98-line 98", "99-line 99", "100:line 100 error", "101-line 101", "102-line 102"]
    assert await fetch(workspace, InMemoryContent(b"a [b\nc"), search="[b") == "1:a [b\n2-c"
    assert await fetch(workspace, InMemoryContent(TEXT), search="nowhere") == "no lines match"


async def test_a_picture_comes_back_as_one(workspace: Workspace) -> None:
    async def find(ref: str, scope: RecallScope | None) -> StoredContent:
        return StoredContent(ref, InMemoryContent(b"png"), "image/png")

    result = await Recall().run({"ref_id": "r1"}, replace(workspace, fetch_stored_content=find))
    text = "image, image/png, 3 bytes\n[recall:r1 – image/png; truncated: no; tokens: 9]"
    assert (result.text, result.images) == (text, (ImageData("image/png", b"png"),))


@pytest.mark.parametrize("wanted", ["yesterday", "1x", "9999999w", "0000-00-00", "-1h"])
def test_a_time_that_is_none_says_how_one_is_written(wanted: str) -> None:
    with pytest.raises(ToolError, match="a time must be written as"):
        parse_time(wanted, 0.0)


@pytest.mark.parametrize(
    ("wanted", "at"), [("", None), ("90s", -90.0), ("2 days ago", -172_800.0), ("5min", -300.0), ("1w", -604_800.0)]
)
def test_times_are_read(wanted: str, at: float | None) -> None:
    assert parse_time(wanted, 0.0) == at


async def test_lines_without_a_reference_are_a_mistake(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="`lines` requires `ref_id`"):
        await look_up(workspace, RecallResult(()), lines="1-2")


async def test_a_session_that_keeps_nothing_says_so(workspace: Workspace) -> None:
    for arguments in ({"query": "x"}, {"ref_id": "r1"}):
        with pytest.raises(ToolError, match=r"there is no history|nothing is stored"):
            await Recall().run(arguments, workspace)


@pytest.mark.parametrize("mode", PERMISSION_MODES)
def test_it_needs_no_permission(mode: Any, workspace: Workspace) -> None:
    tool = Recall()
    ruling = decide(Call(tool.name, tool.effect, tool.subjects({}, workspace)), Policy(root="/p", mode=mode))
    assert ruling.verdict == "allow"


@pytest.mark.parametrize(
    "arguments", [{"max_tokens": 0}, {"scope": "world"}, {"kind": "picture"}, {"query": 5}, {"unheard_of": 1}]
)
def test_arguments_that_mean_nothing_are_refused(arguments: dict[str, object]) -> None:
    assert schema_violations(arguments, Recall.schema)
