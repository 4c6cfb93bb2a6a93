"""What sessions said, looked up by words and by reference, in a real database."""

import asyncio
import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.archive.indexer import MAX_INDEXED_OUTPUT_BYTES, MESSAGES_PER_BATCH
from ebbtide.agent.archive.recall import create_fetch_function
from ebbtide.agent.archive.recall_search import INDEX_REBUILT_NOTE, PARTIAL_MATCH_NOTE
from ebbtide.agent.errors import ReferenceFailed
from ebbtide.agent.messages import Text, User
from ebbtide.agent.records.store_access import delete_session
from ebbtide.agent.view.references import message_digits
from ebbtide.store.index_lock import IndexLock
from ebbtide.tools.base import Tool, Workspace
from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tools.outputs.recall_results import RecallQuery, RecallResult
from ebbtide.tools.outputs.recall_scope import RecallScope
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.recall import Recall
from ebbtide.tools.tool_output_cache import ToolOutputCache
from tests.kit.archived_sessions import ELSEWHERE, HERE, THERE, Sessions, opened


def refs(memory: RecallResult) -> list[str]:
    return [one.ref for one in memory.items]


async def text_of(sessions: Sessions, ref: str, scope: RecallScope = "project") -> str:
    found = await sessions.recall(scope).fetch(ref)
    try:
        return found.content.read(0, found.content.size).decode()
    finally:
        found.content.close()


async def test_everything_a_session_saw_is_found(sessions: Sessions) -> None:
    await sessions.says("please mend the parser")
    await sessions.runs("read", "def tokens(): ...", path="src/lexer.py")
    await sessions.replies("the scanner was wrong")
    await sessions.compacts("a summary of the grammar work")
    recall = sessions.recall()
    for words, kind in (("parser", "user"), ("tokens", "output"), ("scanner", "assistant"), ("grammar", "summary")):
        (one,) = (await recall.search(RecallQuery(words))).items
        assert one.kind == kind
        assert words in await text_of(sessions, one.ref)
    (output,) = (await recall.search(RecallQuery("lexer.py", kinds=("output",)))).items
    assert (output.ref, output.title, output.tool, output.path, output.where, output.excerpt) == (
        "r1", "Viewed src/lexer.py – 1 line", "read", "src/lexer.py", "", "def tokens(): ...",
    )  # fmt: skip


async def test_all_file_views_of_the_last_hour(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("read", "one", path="a.py")
    await sessions.runs("bash", "two", command="ls")
    await sessions.runs("read", "three", path="b.py")
    (first,) = (await sessions.recall().search(RecallQuery(tool="read", path="a.py"))).items
    await sessions.thread.run(sessions.store.query, "update documents set created = created - 4000 where path = 'a.py'")
    views = RecallQuery(kinds=("output",), tool="read", since=first.at - 3600)
    assert refs(await sessions.recall().search(views)) == ["r3"]


async def test_of_a_list_only_the_beginnings_are_shown(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("read", "word " * 200, path="a.py")
    (listed,) = (await sessions.recall().search(RecallQuery(tool="read"))).items
    (found,) = (await sessions.recall().search(RecallQuery("word", tool="read"))).items
    assert len(listed.excerpt) < 125 < len(found.excerpt)


async def test_an_output_is_searched_beyond_what_the_view_shows_of_it(sessions: Sessions) -> None:
    whole = b"start\n" + b"filler line\n" * 3000 + b"the needle is here\n" + b"more\n" * 100_000
    await sessions.says("go")
    await sessions.runs("bash", "start\n[...]", whole=whole, command="make")
    (one,) = (await sessions.recall().search(RecallQuery("needle"))).items
    assert (one.ref, one.searched, one.size) == ("r1", MAX_INDEXED_OUTPUT_BYTES, len(whole))
    assert "the needle is here" in one.excerpt
    assert await text_of(sessions, "r1") == whole.decode()


async def test_bytes_that_are_no_text_are_found_by_what_made_them(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "binary", whole=b"\x00\x01wordinside", command="cat picture")
    recall = sessions.recall()
    assert refs(await recall.search(RecallQuery("wordinside"))) == []
    assert refs(await recall.search(RecallQuery("picture", kinds=("output",)))) == ["r1"]


async def test_what_was_brought_back_is_found_where_it_came_from(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "unheard word", command="make")
    await sessions.runs("recall", "[recall:r1] unheard word", query="unheard")
    await sessions.runs("read_result", "1\tunheard word", ref_id="r1")
    assert refs(await sessions.recall().search(RecallQuery("unheard word", kinds=("output",)))) == ["r1"]
    await sessions.runs("bash", "later", command="make")
    assert refs(await sessions.recall().search(RecallQuery("later", kinds=("output",)))) == ["r4"]


@pytest.mark.parametrize(
    ("scope", "seen"), [("session", {HERE}), ("project", {HERE, THERE}), ("all", {HERE, THERE, ELSEWHERE})]
)
async def test_a_scope_bounds_what_is_seen(sessions: Sessions, scope: RecallScope, seen: set[str]) -> None:
    for session in (HERE, THERE, ELSEWHERE):
        await sessions.says("go", session)
        await sessions.runs("bash", f"common word {session}", session, command="ls")
    memory = await sessions.recall(scope).search(RecallQuery("common word"))
    assert {one.excerpt.split()[-1] for one in memory.items} == seen
    places = {HERE: ("r1", ""), THERE: ("ebb://one/bbbb1111/r1", "session bbbb1111")}
    places[ELSEWHERE] = ("ebb://two/cccc1111/r1", "session cccc1111 of two")
    assert {(one.ref, one.where) for one in memory.items} == {places[session] for session in seen}
    for session, (ref, _) in places.items():
        if session in seen:
            assert session in await text_of(sessions, ref, scope)
        else:
            with pytest.raises(ReferenceFailed, match=f"`recall.scope` is `{scope}`"):
                await sessions.recall(scope).fetch(ref)


async def test_a_call_may_ask_for_less_than_is_allowed_and_not_for_more(sessions: Sessions) -> None:
    for session in (HERE, THERE):
        await sessions.says("common word", session)
    recall = sessions.recall("project")
    assert len((await recall.search(RecallQuery("common", scope="session"))).items) == 1
    other = (await recall.search(RecallQuery("common", scope="project"))).items
    with pytest.raises(ReferenceFailed, match="from this project only"):
        await recall.search(RecallQuery("common", scope="all"))
    (there,) = (one.ref for one in other if one.where)
    with pytest.raises(ReferenceFailed, match="and `scope` was `session`"):
        await recall.fetch(there, "session")


async def test_how_often_and_when_is_kept_with_each_kind_of_entry(sessions: Sessions) -> None:
    await sessions.says("please run the tests")
    await sessions.runs("bash", "ok", command="pytest")
    await sessions.compacts("The tests pass.")
    message = f"msg-{message_digits(User((Text('please run the tests'),)))}"
    for ref in (message, "r1", "sum-1"):
        began, found = time.time(), list[tuple[int, float | None]]()
        for _ in range(3):
            stored = await sessions.recall().fetch(ref)
            stored.content.close()
            found.append((stored.access_count, stored.last_accessed_at))
        assert [count for count, _ in found] == [0, 1, 2], ref
        assert found[0][1] is None
        assert all(last is not None and began <= last <= time.time() for _, last in found[1:])


async def test_what_was_looked_up_comes_first_among_equals(sessions: Sessions) -> None:
    await sessions.says("go")
    for _ in range(3):
        await sessions.runs("bash", "same words", command="ls")
    recall = sessions.recall()
    found = (await recall.search(RecallQuery("same words", kinds=("output",)))).items
    assert {one.ref for one in found} == {"r1", "r2", "r3"}
    await text_of(sessions, "r2")
    assert (await recall.search(RecallQuery("same words", kinds=("output",)))).items[0].ref == "r2"


async def test_some_of_the_words_are_enough_when_nothing_holds_all(sessions: Sessions) -> None:
    await sessions.says("the retry limit")
    memory = await sessions.recall().search(RecallQuery("who set the retry"))
    assert (len(memory.items), memory.notes) == (1, (PARTIAL_MATCH_NOTE,))


async def test_an_earlier_database_is_indexed_when_it_is_searched(sessions: Sessions) -> None:
    for number in range(MESSAGES_PER_BATCH + 50):
        await sessions.says(f"message {number} word{number}")
    memory = await sessions.recall().search(RecallQuery(f"word{MESSAGES_PER_BATCH + 7}"))
    assert [one.excerpt for one in memory.items] == [f"message {MESSAGES_PER_BATCH + 7} word{MESSAGES_PER_BATCH + 7}"]


async def test_a_search_that_would_wait_long_answers_from_what_is_indexed_and_goes_on_later(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MESSAGES_PER_BATCH + 50):
        await sessions.says(f"message {number} word{number}", THERE)
    await sessions.says("another word7")
    monkeypatch.setattr("ebbtide.agent.archive.recall_search.INDEX_TIMEOUT_S", 0.0)
    monkeypatch.setattr("ebbtide.agent.archive.indexer.start_index_process", lambda *arguments: False)
    searched = [await sessions.recall().search(RecallQuery("word7 another")) for _ in range(3)]
    assert [refs(memory)[0] for memory in searched] == refs(searched[0])[:1] * 3
    notes = [[note for note in memory.notes if note != PARTIAL_MATCH_NOTE] for memory in searched]
    left = "1 of 2 sessions are searchable so far; the next search continues with the rest"
    assert notes == [[left], [], []]


async def test_while_another_process_indexes_a_search_indexes_its_own_session_alone(
    sessions: Sessions, tmp_path: Path
) -> None:
    await sessions.says("a word there", THERE)
    await sessions.says("a word here")
    lock = await asyncio.to_thread(IndexLock.acquire, tmp_path / "sessions.db")
    assert lock is not None
    with closing(lock):
        memory = await sessions.recall().search(RecallQuery("word"))
        assert memory.notes == ("1 of 2 sessions are searchable so far; the rest is being indexed",)
        assert [one.excerpt for one in memory.items] == ["a word here"]
        assert (await sessions.recall("session").search(RecallQuery("word"))).notes == ()
    assert len((await sessions.recall().search(RecallQuery("word"))).items) == 2


async def test_calls_keep_their_outputs_where_a_batch_ends_between_them(sessions: Sessions) -> None:
    for number in range(MESSAGES_PER_BATCH - 1):
        await sessions.says(f"message {number}")
    await sessions.runs("bash", "between", command="make borders")
    (one,) = (await sessions.recall().search(RecallQuery("between"))).items
    assert (one.ref, one.tool) == ("r1", "bash")


async def test_an_index_that_is_made_anew_is_made_in_pieces_and_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened(tmp_path)
    for number in range(MESSAGES_PER_BATCH + 50):
        await first.says(f"message {number} word")
    await first.recall().search(RecallQuery("word"))
    await first.thread.close()
    with sqlite3.connect(tmp_path / "sessions.db") as db:
        db.execute("drop table documents")
    db.close()
    monkeypatch.setattr("ebbtide.agent.archive.indexer.INDEX_TIMEOUT_S", 0.0)
    monkeypatch.setattr("ebbtide.agent.archive.recall_search.INDEX_TIMEOUT_S", 0.0)
    monkeypatch.setattr("ebbtide.agent.archive.indexer.start_index_process", lambda *arguments: False)
    second = await opened(tmp_path)
    memory = await second.recall().search(RecallQuery("word", limit=MESSAGES_PER_BATCH))
    left = "49 older messages are not searchable yet; the next search continues with the rest"
    assert memory.notes == (left, INDEX_REBUILT_NOTE)
    assert len(memory.items) == MESSAGES_PER_BATCH


@pytest.mark.parametrize("damage", ["delete from words_data where id > 10", "drop table documents"])
async def test_a_damaged_index_is_made_anew_and_that_is_said(tmp_path: Path, damage: str) -> None:
    first = await opened(tmp_path)
    for number in range(30):
        await first.says(f"message {number} word")
    await first.recall().search(RecallQuery("word"))
    await first.thread.close()
    with sqlite3.connect(tmp_path / "sessions.db") as db:
        db.execute(damage)
    db.close()
    second = await opened(tmp_path)
    second_memory = await second.recall().search(RecallQuery("word", limit=50))
    assert (len(second_memory.items), second_memory.notes) == (30, (INDEX_REBUILT_NOTE,))
    assert (await second.recall().search(RecallQuery("word"))).notes == ()
    await second.thread.close()


async def test_a_reference_of_a_deleted_session_says_so(sessions: Sessions) -> None:
    await sessions.says("a word that goes", THERE)
    (one,) = (await sessions.recall().search(RecallQuery("goes"))).items
    await sessions.thread.run(sessions.store.delete, THERE)
    assert (await sessions.recall().search(RecallQuery("goes"))).items == ()
    with pytest.raises(ReferenceFailed, match="it was deleted"):
        await sessions.recall().fetch(one.ref)


async def test_another_process_may_write_and_search_the_same_database(sessions: Sessions, tmp_path: Path) -> None:
    await sessions.says("one word")
    await sessions.recall().search(RecallQuery("word"))
    other = await opened(tmp_path)
    await sessions.says("another word")
    assert len((await other.recall().search(RecallQuery("word"))).items) == 2
    assert len((await sessions.recall().search(RecallQuery("word"))).items) == 2
    await other.thread.close()


async def test_a_message_that_cannot_be_read_hides_no_other(sessions: Sessions) -> None:
    await sessions.says("first word")
    await sessions.says("second word")
    await sessions.thread.run(sessions.store.query, "update messages set body = '{' where position = 0")
    (one,) = (await sessions.recall().search(RecallQuery("word"))).items
    assert one.excerpt == "second word"


async def test_a_damaged_index_keeps_no_session_from_being_deleted(sessions: Sessions) -> None:
    await sessions.says("a word that stays")
    await sessions.says("a word that goes", THERE)
    await sessions.recall().search(RecallQuery("word"))
    await sessions.thread.run(sessions.store.query, "delete from words_config")
    await sessions.thread.run(sessions.store.query, "update words_data set block = zeroblob(9)")
    await delete_session(sessions.thread, sessions.store, THERE)
    assert [one.excerpt for one in (await sessions.recall().search(RecallQuery("word"))).items] == ["a word that stays"]


async def test_two_searches_at_once_index_everything_once(sessions: Sessions) -> None:
    for number in range(2 * MESSAGES_PER_BATCH):
        await sessions.says(f"message {number} word")
    recall = sessions.recall()
    await asyncio.gather(*(recall.search(RecallQuery("word")) for _ in range(3)))
    count = await sessions.thread.run(sessions.store.query, "select count(*), count(distinct position) from documents")
    assert count == [(2 * MESSAGES_PER_BATCH, 2 * MESSAGES_PER_BATCH)]


async def test_a_long_output_is_searched_to_its_end(sessions: Sessions) -> None:
    await sessions.says("go")
    whole = b"filler line\n" * 60_000 + "the Needle is há here\n".encode() + b"filler\n" * 9 + b"in a hay-stack\n"
    await sessions.runs("bash", "filler\n[...]", whole=whole, command="make")
    await sessions.runs("bash", "filler\n[...]", whole=b"filler line\n" * 60_000, command="ls")
    await sessions.runs("read", "filler\n[...]", whole=whole, path="a.txt")
    search = sessions.recall().search
    excerpt = "60001: the Needle is há here\n60011: in a hay-stack"
    for query in ("needle hay", '"hay stack" needle', "HÁ needle"):
        found = await search(RecallQuery(query, tool="bash"))
        assert [(one.ref, one.title[:9], one.searched, one.size) for one in found.items] == [
            ("r1", "Ran: make", None, len(whole))
        ]
        assert found.notes == ()
        assert found.items[0].excerpt == (excerpt if "hay" in query else excerpt.partition("\n")[0])
    assert refs(await search(RecallQuery("needle hay"))) == ["r3", "r1"]
    assert await search(RecallQuery("needle haystacks")) == RecallResult((), ())


async def test_what_was_not_searched_to_its_end_is_named(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    await sessions.says("go", THERE)
    for number in range(7):
        await sessions.runs("bash", "filler", THERE, whole=b"filler line\n" * 90_000, command=f"make {number}")
    monkeypatch.setattr("ebbtide.agent.archive.recall_search.MAX_SCAN_SECONDS", 0.0)
    (note,) = (await sessions.recall().search(RecallQuery("needle"))).notes
    assert note.startswith("only the first 262,144 bytes of ebb://one/bbbb1111/r7, ebb://one/bbbb1111/r6, ")
    assert note.endswith("/r3 and 2 more are searched here; `ref_id` with `search` searches a whole output")
    assert (await sessions.recall(scope="session").search(RecallQuery("needle"))).notes == ()


async def test_a_message_that_is_damaged_after_it_was_indexed_is_still_found(sessions: Sessions) -> None:
    await sessions.says("first word")
    await sessions.says("second word")
    before = await sessions.recall().search(RecallQuery("word"))
    await sessions.thread.run(sessions.store.query, "update messages set body = '{' where position = 0")
    assert await sessions.recall().search(RecallQuery("word")) == before
    await sessions.thread.run(sessions.store.query, "update messages set ref = null where position = 0")
    assert "msg-00000000" in refs(await sessions.recall().search(RecallQuery("word")))


HINT = re.compile(r'continue at (ref_id|lines|offset)=(?:"([^"]+)"|(\d+))')
CONTENTS = {
    "lines": b"".join(b"needle %d\n" % number for number in range(4000)),
    "long lines": b"first\n" + "é€x".encode() * 9000 + b"\nneedle\n" + b"y" * 30_000,
    "one line without an end": b"needle" + b"z" * 120_000,
    "no text": bytes(range(256)) * 40,
}


@pytest.mark.parametrize("tool", [Recall(), ReadResult(), ToolOutputCache()], ids=lambda tool: tool.name)
@pytest.mark.parametrize("what", CONTENTS)
@pytest.mark.parametrize("begins", ["r1", "r1:B3-200", "r1:L1-2"])
async def test_each_hint_is_a_call_that_gives_the_next_part_until_the_end(
    sessions: Sessions, tmp_path: Path, tool: Tool, what: str, begins: str
) -> None:
    whole = CONTENTS[what]
    await sessions.says("go")
    await sessions.runs("bash", "start\n[...]", whole=whole, command="make")
    fetch = create_fetch_function(sessions.recall())
    workspace = replace(
        Workspace(tmp_path, tmp_path), fetch_stored_content=fetch, get_stored_content=lambda ref: fetch(ref, None)
    )
    arguments: dict[str, Any] = {"ref_id": begins}
    asked, seen = list[dict[str, Any]](), ""
    while True:
        assert arguments not in asked
        assert schema_violations(arguments, tool.schema) == []
        asked.append(dict(arguments))
        seen = (await tool.run(arguments, workspace)).text
        hints = HINT.findall(seen)
        if not hints:
            break
        name, quoted, number = hints[-1]
        arguments = {"ref_id": arguments["ref_id"], name: quoted or int(number)}
        if name == "offset":
            arguments["limit"] = 40_000
    assert len(asked) < 60
    lines = whole.count(10) + (not whole.endswith(b"\n"))
    ends = [f"-{len(whole)} of {len(whole):,})", f"-{lines} of {lines:,})"]
    ends += [f"(lines 1-2 of {lines:,})"] if begins == "r1:L1-2" else []
    ends += [f"(lines 1-200 of {lines:,})"] if isinstance(tool, ToolOutputCache) else []
    assert any(end in seen for end in ends)


async def test_each_hint_of_a_search_is_a_call_that_finds_what_follows(sessions: Sessions, tmp_path: Path) -> None:
    piece = b"x" * ((1 << 20) - 1) + b"."
    whole = b"".join(b"needle%d\n" % n for n in range(300)) + b"".join(b"needle%d" % n + piece for n in range(300, 305))
    await sessions.says("go")
    await sessions.runs("bash", "start\n[...]", whole=whole, command="make")
    workspace = replace(Workspace(tmp_path, tmp_path), fetch_stored_content=create_fetch_function(sessions.recall()))
    arguments: dict[str, Any] = {"ref_id": "r1", "search": r"needle\d+", "max_tokens": 500}
    asked, found = list[dict[str, Any]](), list[str]()
    while True:
        assert arguments not in asked
        asked.append(arguments)
        seen = (await Recall().run(arguments, workspace)).text
        found += re.findall(r"\d+:(?:\[byte [\d,]+ of the line\] x*\.?)?(needle\d+)", seen)
        hint = re.search(rf"{HINT.pattern} with the same search\)", seen)
        if hint is None:
            break
        arguments = {"ref_id": "r1", "search": r"needle\d+", "max_tokens": 500} | {hint[1]: hint[2]}
    assert list(dict.fromkeys(found)) == [f"needle{n}" for n in range(305)]
    assert len(asked) > 5
