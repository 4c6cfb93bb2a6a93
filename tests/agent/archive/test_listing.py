"""What a session has kept, listed and read a page at a time, in a real database."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.archive.listing import ArchiveListing, ContentPage
from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.store.archive import ArchiveStore
from tests.kit.archived_sessions import HERE, THERE, Sessions

LONG = b"".join(b"row %d\n" % number for number in range(1, 5_001))


def shelf_of(sessions: Sessions, session: str = HERE) -> ArchiveListing:
    return ArchiveListing(sessions.thread, sessions.store, sessions.archive(session), session)


async def test_what_was_kept_is_listed_with_how_the_model_sees_it(sessions: Sessions) -> None:
    began = time.time()
    await sessions.says("please run the old tests")
    await sessions.runs("bash", "ok\nexit code 0", command="old")
    await sessions.replies("They pass.")
    await sessions.compacts("The old tests pass.")
    await sessions.says("and the new ones")
    await sessions.runs("bash", "masked later\n" * 100, command="one")
    await sessions.runs("bash", "only the beginning", whole=LONG, command="two")
    await sessions.runs("read", "1\thello", path="a.py")
    view = replace(sessions.views[HERE], masked=frozenset({sessions.views[HERE].messages[2].parts[0].call_id}))  # type: ignore[union-attr]  # an output
    listed = await shelf_of(sessions).items(view)
    assert [(one.ref[:4], one.state, one.size, one.line_count) for one in listed] == [
        ("r4", "visible", 7, 1),
        ("r3", "preview", len(LONG), 5_000),
        ("r2", "masked", 1_300, 100),
        ("msg-", "summarised", 10, 1),
        ("r1", "summarised", 14, 2),
        ("msg-", "summarised", 24, 1),
    ]
    assert [one.call.arguments if one.call else (one.role, one.preview) for one in listed] == [
        {"path": "a.py"},
        {"command": "two"},
        {"command": "one"},
        ("model", "They pass."),
        {"command": "old"},
        ("you", "please run the old tests"),
    ]
    assert all(began <= one.created_at <= time.time() for one in listed)
    assert await shelf_of(sessions, THERE).items(sessions.views[THERE]) == ()

    messages = [one.ref for one in listed if one.role]
    assert await shelf_of(sessions).page(messages[1], 1, 10) == ContentPage(("please run the old tests",), 1, 1)


async def test_how_a_program_ended_counts_with_what_it_printed_as_it_is_read_with_it(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "only the beginning", whole=LONG, frame="exit code 3", command="two")
    listing = shelf_of(sessions)
    (listed,) = [one for one in await listing.items(sessions.views[HERE]) if one.ref == "r1"]
    page = await listing.page("r1", 1, 10_000)
    assert (listed.line_count, page.line_count, page.lines[-1]) == (5_001, 5_001, "exit code 3")
    assert listed.size == len(LONG) + len("exit code 3")


async def test_pages_come_from_any_place_and_count_as_no_access(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "only the beginning", whole=LONG, command="two")
    listing = shelf_of(sessions)
    assert await listing.page("r1", 2_000, 2) == ContentPage(("row 2000", "row 2001"), 2_000, 5_000)
    assert await listing.page("r1", 9_999, 3) == ContentPage(("row 4998", "row 4999", "row 5000"), 4_998, 5_000)
    assert await listing.page("r1", 1, 1) == ContentPage(("row 1",), 1, 5_000)
    (row,) = await sessions.thread.run(ArchiveStore(sessions.store).output_parts, HERE, 1)
    assert (row.accesses, row.accessed) == (0, None)


async def test_pages_of_what_is_odd(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "part", whole=b"\xff\x00one\n" + b"x" * 3_000_000, command="a")
    await sessions.runs("bash", "", command="b")
    listing = shelf_of(sessions)
    assert await listing.page("r1", 1, 10) == ContentPage(("\ufffd\0one", "x" * 1_000), 1, 2)
    assert await listing.page("r2", 1, 10) == ContentPage((), 1, 0)


async def test_what_is_gone_or_damaged_says_so(sessions: Sessions, tmp_path: Path) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "part", whole=LONG, command="a")
    await sessions.runs("bash", "part", whole=LONG[:-1], command="b")
    (row,) = await sessions.thread.run(ArchiveStore(sessions.store).output_parts, HERE, 2)
    blob = tmp_path / "blobs" / str(row.digest)[:2] / str(row.digest)
    data = bytearray(blob.read_bytes())
    data[100:200] = bytes(100)
    blob.write_bytes(data)
    listing = shelf_of(sessions)
    with pytest.raises(StoreFailed, match="is damaged"):
        await listing.page("r2", 1, 10)
    with pytest.raises(ReferenceFailed, match="there is no `r9`"):
        await listing.page("r9", 1, 10)
    await sessions.thread.run(ArchiveStore(sessions.store).expire, max_bytes=0)
    with pytest.raises(ReferenceFailed, match="was removed on"):
        await listing.page("r1", 1, 10)
    assert [one.state for one in await listing.items(sessions.views[HERE])] == ["removed", "removed"]


async def test_the_newest_of_very_many_are_listed(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.agent.archive.listing.MAX_LISTED_OUTPUTS", 3)
    await sessions.says("go")
    for number in range(6):
        await sessions.runs("bash", f"output {number}", command=f"c{number}")
    listed = await shelf_of(sessions).items(sessions.views[HERE])
    assert [one.ref for one in listed if one.call is not None] == ["r6", "r5", "r4"]


async def test_a_message_that_cannot_be_read_is_named_and_what_is_kept_of_it_is_listed(sessions: Sessions) -> None:
    await sessions.says("go")
    await sessions.runs("bash", "only the beginning", whole=LONG, command="make")
    await sessions.runs("bash", "fine", command="ls")
    await sessions.thread.run(sessions.store.query, "update messages set body = '{' where position = 2")
    listing = shelf_of(sessions)
    listed = await listing.items(sessions.views[HERE])
    assert [(one.ref, one.preview) for one in listed] == [
        ("r2", ""),
        ("r1", ""),
        ("message-2", "message 2 of the session cannot be read"),
    ]
    assert (await listing.page("r1", 1, 1)).lines == ("row 1",)


async def test_how_often_and_when_something_was_looked_up_is_listed(sessions: Sessions) -> None:
    await sessions.says("please run the old tests")
    await sessions.runs("bash", "ok", command="old")
    await sessions.compacts("The old tests pass.")
    unread = await shelf_of(sessions).items(sessions.views[HERE])
    assert [(one.access_count, one.accessed_at) for one in unread] == [(0, None), (0, None)]
    began = time.time()
    for ref in (unread[0].ref, unread[1].ref, unread[1].ref):
        (await sessions.recall().fetch(ref)).content.close()
    listed = await shelf_of(sessions).items(sessions.views[HERE])
    assert [one.access_count for one in listed] == [1, 2]
    assert all(one.accessed_at is not None and began <= one.accessed_at <= time.time() for one in listed)
