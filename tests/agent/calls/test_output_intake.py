"""Outputs with files and pictures on their way into the view, and back: whole sessions, a real database, real files."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ebbtide.agent.archive.listing import ArchiveListing
from ebbtide.agent.errors import ReferenceFailed
from ebbtide.agent.events.session import Noticed, TurnFinished
from ebbtide.agent.messages import Assistant, Image, StoredBlob, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records.message_rows import decode_message, encode_message
from ebbtide.agent.view.previews import OffloadLimits
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import MessageRow, OutputRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Arguments, Attachment, Effect, ImageData, Result, Workspace
from tests.agent.view.test_output_media import PNG
from tests.kit.session import ID, Home, call, calls, events_of, first_turn, outputs_of

PDF = Attachment("report.pdf", "application/pdf", b"%PDF-1.7\n\xff\xfe" + bytes(5000))
SONG = Attachment("song.wav", "audio/wav", b"RIFF\x00\x01\x02\x03WAVE")
NOTES = Attachment("notes.md", "text/markdown", b"".join(b"note %d\n" % number for number in range(2000)))


@dataclass
class Giver:
    """A tool of a server: it gives back what it was made with."""

    given: Result
    name: str = "mcp__files__get"
    description: str = "Gets files."
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "object", "properties": {}})
    effect: Effect = "none"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return self.given


def get(*then: dict[str, Any]) -> ScriptedProvider:
    """A model that calls the tool once and then others."""
    return ScriptedProvider.from_replies(
        calls(call("mcp__files__get")), *([calls(*then)] if then else []), {"text": "done"}
    )


async def test_files_of_an_output_are_kept_and_one_line_stands_for_each(home: Home) -> None:
    given = Result("two files", images=(ImageData("image/png", PNG),), files=(PDF, SONG))
    session, _ = await first_turn(home.session(get(), Giver(given)))
    (output,) = outputs_of(session)
    assert output.text == (
        "two files\n"
        '[Attached "report.pdf" — application/pdf, 5,011 bytes; kept as ref_id="r1:tool-2"]\n'
        '[Attached "song.wav" — audio/wav, 12 bytes; kept as ref_id="r1:tool-3"]'
    )
    archive = home.archive()
    assert await archive.read("r1") == output.text.encode()
    assert await archive.read("r1:tool-1") == PNG
    assert await archive.read("r1:tool-2") == PDF.data
    assert await archive.read("r1:tool-3") == SONG.data
    assert [(await archive.resolve(f"r1:tool-{number}")).media_type for number in (1, 2, 3)] == [
        "image/png",
        "application/pdf",
        "audio/wav",
    ]
    await session.close()
    again = await home.session(get(), Giver(given), resume=True)
    assert outputs_of(again) == [output]


async def test_a_document_that_can_be_read_is_shown_like_text(home: Home) -> None:
    then = call("read_result", ref_id="r1", lines="2000-2002")
    session, _ = await first_turn(home.session(get(then), Giver(Result("found:", files=(NOTES, SONG)))))
    output, read = outputs_of(session)
    lines = output.text.splitlines()
    assert lines[:4] == [
        '[Tool result stored — 19,025 bytes, 2,003 lines from "mcp__files__get".',
        "found:",
        '[Attached "notes.md" — text/markdown, 18,890 bytes:]',
        "note 0",
    ]
    assert lines[-3:] == [
        "note 1999]",
        'Use the "read_result" tool with ref_id="r1" to read specific portions.',
        '[Attached "song.wav" — audio/wav, 12 bytes; kept as ref_id="r1:tool-1"]',
    ]
    assert read.text == "2000\tnote 1997\n2001\tnote 1998\n2002\tnote 1999\n(lines 2000-2002 of 2,003)"
    whole = b'found:\n[Attached "notes.md" \xe2\x80\x94 text/markdown, 18,890 bytes:]\n' + NOTES.data
    assert await home.archive().read("r1") == whole + lines[-1].encode()


async def test_a_medium_comes_back_with_its_first_bytes_and_how_to_save_it(home: Home) -> None:
    session = await home.session(
        get(
            call("read_result", ref_id="r1:tool-1"),
            call("recall", ref_id="r1:tool-1"),
            call("read_result", ref_id="r1:tool-1", offset=5010, limit=4),
            call("read_result", ref_id="r1:tool-2"),
        ),
        Giver(Result("a file", files=(PDF,))),
    )
    await events_of(session)
    _, read, recalled, bytes_of_it, missing = outputs_of(session)
    first, second, third, *_, last = read.text.splitlines()
    assert first == (
        "application/pdf, 5,011 bytes, no text; the user can save it with `ebb sessions show ID r1:tool-1 > FILE`"
    )
    assert (second, third[:32]) == ("(not text; shown in hexadecimal)", "25 50 44 46 2d 31 2e 37 0a ff fe")
    assert last == "(bytes 0-1024 of 5,011; continue at offset=1024)"
    content, _, about = recalled.text.rpartition("\n")
    assert content == read.text.replace("offset=1024)", 'ref_id="r1:tool-1:B1024-")')
    assert about.startswith("[recall:r1:tool-1 – output of mcp__files__get; truncated: no; tokens: ")
    assert bytes_of_it.text == "(not text; shown in hexadecimal)\n00\n(bytes 5010-5011 of 5,011)"
    assert (missing.status, missing.text) == ("failed", "`r1` has one image or file: leave `:tool-2` out")


async def test_what_is_read_again_names_the_pictures_that_came_with_it(home: Home) -> None:
    pictures = (ImageData("image/png", PNG), ImageData("image/gif", b"GIF89a"))
    session = await home.session(
        get(
            call("read_result", ref_id="r1"),
            call("recall", ref_id="r1"),
            call("read_result", ref_id="r1:tool-2"),
            call("read_result", ref_id="r1", pattern="two"),
        ),
        Giver(Result("one\ntwo", images=pictures)),
    )
    await events_of(session)
    outputs = [(output.text.partition("\n[recall:r1 – ")[0], len(output.images)) for output in outputs_of(session)]
    assert outputs == [
        ("one\ntwo", 2),
        ("one\ntwo\n(bytes 0-7 of 7)\n(with images: r1:tool-1, r1:tool-2)", 0),
        ("1\tone\n2\ttwo\n(lines 1-2 of 2)\n(with images: r1:tool-1, r1:tool-2)", 0),
        ("image, image/gif, 6 bytes", 1),
        ("2:two\n(with images: r1:tool-1, r1:tool-2)", 0),
    ]


async def test_an_output_that_is_a_picture_comes_back_as_one_and_names_the_others(home: Home) -> None:
    pictures = tuple(ImageData("image/gif", b"GIF89a" + bytes([number])) for number in range(8))
    then = call("read_result", ref_id="r1")
    session, _ = await first_turn(home.session(get(then), Giver(Result("eight", images=pictures))))
    assert outputs_of(session)[1] == ToolOutput(
        "call-2-2",
        "image, image/gif, 7 bytes\n(with images: r1:tool-2, r1:tool-3, r1:tool-4, r1:tool-5, r1:tool-6 and 2 more)",
        images=(outputs_of(session)[0].images[0],),
    )


async def test_files_are_on_the_shelf_with_how_to_save_them(home: Home) -> None:
    given = Result("files", images=(ImageData("image/png", PNG),), files=(PDF, SONG))
    session, _ = await first_turn(home.session(get(), Giver(given)))
    listing = ArchiveListing(home.thread, home.store, home.archive(), ID)
    listed = await listing.items(session.history)
    assert [(one.ref, one.state, one.size) for one in listed] == [
        ("r1", "visible", len(outputs_of(session)[0].text.encode())),
        ("r1:tool-2", "preview", 5011),
        ("r1:tool-3", "preview", 12),
    ]
    saved = f"(application/pdf, 5,011 bytes; `ebb sessions show {ID} r1:tool-2 > FILE` saves it)"
    assert (await listing.page("r1:tool-2", 1, 10)).lines == (saved,)


async def test_so_many_files_that_their_lines_are_long_are_themselves_shown_in_part(home: Home) -> None:
    files = tuple(Attachment(f"{number}.bin", "application/octet-stream", bytes([number])) for number in range(100))
    session, _ = await first_turn(home.session(get(), Giver(Result("", files=files))))
    (output,) = outputs_of(session)
    assert output.text.startswith('[Tool result stored — 8,581 bytes, 100 lines from "mcp__files__get".\n[Attached "0')
    assert len(output.text) < 2500
    assert (await home.archive().read("r1")).count(b"\n") == 99
    assert await home.archive().read("r1:tool-100") == bytes([99])


async def test_files_that_cannot_be_kept_are_named_and_the_step_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("full", "the disk is full")

    monkeypatch.setattr(home.blobs, "put", full)
    session, events = await first_turn(home.session(get(), Giver(Result("a file", files=(PDF,)))))
    assert outputs_of(session) == [
        ToolOutput("call-1-1", 'a file\n[Attached "report.pdf" — application/pdf, 5,011 bytes; it could not be kept]')
    ]
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        "attachments of the output of `mcp__files__get` could not be stored: the disk is full"
    ]


async def test_a_picture_that_is_seen_again_is_stored_once_and_the_log_names_it(home: Home) -> None:
    (home.root / "a.png").write_bytes(PNG)
    looks = [calls(call("read", path="a.png")), calls(call("read", path="a.png"), call("read_result", ref_id="r1"))]
    session, _ = await first_turn(home.session(ScriptedProvider.from_replies(*looks, {"text": "done"})))
    messages, digest = session.history.messages, hashlib.sha256(PNG).hexdigest()
    image = Image("image/png", base64.b64encode(PNG).decode(), digest)
    assert [output.images for output in outputs_of(session)] == [(image,), (image,), (image,)]
    await session.close()
    assert list(home.blobs.sizes()) == [digest]
    assert list((home.blobs.folder / "incoming").iterdir()) == []
    bodies = [row.body for row in await home.thread.run(home.store.messages, ID)]
    assert (image.data in "".join(bodies), "".join(bodies).count(digest)) == (False, 3)
    again = await home.session(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert again.history.messages == messages
    await again.close()
    assert [await home.archive().read(ref) for ref in ("r1", "r2:tool-1", "r3")] == [PNG, PNG, PNG]
    await home.thread.run(home.store.delete, ID)
    await home.thread.run(ArchiveStore(home.store).collect_garbage)
    assert home.blobs.sizes() == {}


async def test_pictures_in_the_log_of_an_earlier_version_are_seen(home: Home) -> None:
    data = base64.b64encode(PNG).decode()
    output = {"type": "output", "call_id": "c1", "text": "a", "status": "done"}
    body = json.dumps({"parts": [{**output, "images": [{"media_type": "image/png", "data": data}]}]})
    message = User((ToolOutput("c1", "a", images=(Image("image/png", data),)),))
    await home.said(User((Text("go"),)), Assistant((ToolCall("c1", "read", {}),), "m"))
    await home.thread.run(
        home.store.write,
        ID,
        [MessageRow(2, "user", body)],
        outputs=[OutputRow(1, 1, 2, "c1", "read", 1, 0, "image/png")],
    )
    conversation = await home.recorder(is_new=False).read_conversation()
    assert conversation.messages[-1] == message
    assert json.loads(encode_message(message, 2).body) == json.loads(body)
    assert await home.archive().read("r1") == PNG


async def test_a_picture_that_was_removed_leaves_a_line_in_the_view(home: Home) -> None:
    given = Result("two", images=(ImageData("image/png", PNG), ImageData("image/gif", b"GIF89a")))
    session, _ = await first_turn(home.session(get(), Giver(given)))
    await session.close()
    await home.thread.run(lambda: ArchiveStore(home.store).expire(max_bytes=1))
    again = await home.session(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    gone = "[an image (image/png) is no longer available]\n[an image (image/gif) is no longer available]"
    assert outputs_of(again) == [ToolOutput("call-1-1", f"two\n{gone}")]
    assert (await events_of(again, "and?"))[-1] == TurnFinished("answered", "ok")
    await again.close()
    with pytest.raises(ReferenceFailed, match=r"`r1` was removed on .* because stored outputs took more space"):
        await home.archive().read("r1:tool-2")


@pytest.mark.parametrize("how", ["full", "nothing is kept"])
async def test_where_nothing_can_be_kept_the_log_holds_the_picture(
    home: Home, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("full", "the disk is full")

    if how == "full":
        monkeypatch.setattr(home.blobs, "put", full)
    session = await home.session(
        get(), Giver(Result("one", images=(ImageData("image/png", PNG),))), keeps=how == "full"
    )
    await events_of(session)
    expected = [ToolOutput("call-1-1", "one", images=(Image("image/png", base64.b64encode(PNG).decode()),))]
    assert outputs_of(session) == expected
    await session.close()
    again = await home.session(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert outputs_of(again) == expected
    await again.close()
    assert await home.archive().read("r1") == PNG


async def test_where_references_cannot_be_written_the_log_holds_the_picture(home: Home) -> None:
    session = await home.session(get(), Giver(Result("one", images=(ImageData("image/png", PNG),))))
    await home.thread.run(_drop, home.store, "outputs")
    assert (await events_of(session))[-1] == TurnFinished("answered", "done")
    await session.close()
    (output,) = await outputs_in_log(home)
    assert output.images == (Image("image/png", base64.b64encode(PNG).decode()),)


def _drop(store: SessionStore, table: str) -> None:
    with store.transaction() as db:
        db.execute(f"drop table {table}")


async def outputs_in_log(home: Home) -> list[ToolOutput]:
    """All outputs, as the log has them."""
    messages = [decode_message(row) for row in await home.thread.run(home.store.messages, ID)]
    return [output for message in messages if isinstance(message, User) for output in message.outputs]


async def test_a_picture_that_finds_no_room_is_cut_and_comes_back(home: Home) -> None:
    given = Result("a long text\n" * 3000, images=(ImageData("image/png", PNG),))
    provider = ScriptedProvider.from_replies(calls(call("mcp__files__get")), {"text": "done"}, context_window=14_000)
    await events_of(await home.session(provider, Giver(given), offloading=OffloadLimits(max_output_bytes=100_000)))
    (output,) = await outputs_in_log(home)
    digest = hashlib.sha256(PNG).hexdigest()
    assert (output.images, output.pictures) == ((), (StoredBlob(digest, len(PNG), 0, "image/png"),))
    assert await home.archive().read("r1:tool-1") == PNG
