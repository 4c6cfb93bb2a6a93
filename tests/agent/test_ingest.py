"""Outputs with files and pictures on their way into the view, and back: whole sessions, a real database, real files."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.events import Noticed
from agent.messages import ToolOutput
from agent.providers.scripted import Scripted
from store.errors import StoreError
from tests.agent.archived import Home, calls, events_of, outputs_of
from tests.agent.context.test_attached import PNG
from tools.base import Arguments, Attached, Effect, Picture, Result, Workspace

PDF = Attached("report.pdf", "application/pdf", b"%PDF-1.7\n\xff\xfe" + bytes(5000))
SONG = Attached("song.wav", "audio/wav", b"RIFF\x00\x01\x02\x03WAVE")
NOTES = Attached("notes.md", "text/markdown", b"".join(b"note %d\n" % number for number in range(2000)))


@dataclass
class Giver:
    """A tool of a server: it gives back what it was made with."""

    given: Result
    name: str = "mcp__files__get"
    description: str = "Gets files."
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "object"})
    effect: Effect = "none"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return self.given


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    opened = await Home(tmp_path).open()
    yield opened
    await opened.thread.close()


def get(*then: tuple[str, dict[str, Any]]) -> Scripted:
    """A model that calls the tool once and then others."""
    return Scripted.of(calls(("mcp__files__get", {})), *([calls(*then)] if then else []), {"text": "done"})


async def test_files_of_an_output_are_kept_and_one_line_stands_for_each(home: Home) -> None:
    given = Result("two files", pictures=(Picture("image/png", PNG),), files=(PDF, SONG))
    session = await home.session(get(), Giver(given))
    await events_of(session)
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
    again = await home.session(get(), Giver(given), is_new=False)
    assert outputs_of(again) == [output]
    await again.close()


async def test_a_document_that_can_be_read_is_shown_like_text(home: Home) -> None:
    then = ("read_result", {"ref_id": "r1", "lines": "2000-2002"})
    session = await home.session(get(then), Giver(Result("found:", files=(NOTES, SONG))))
    await events_of(session)
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
    await session.close()


async def test_a_medium_comes_back_with_its_first_bytes_and_how_to_save_it(home: Home) -> None:
    session = await home.session(
        get(
            ("read_result", {"ref_id": "r1:tool-1"}),
            ("recall", {"ref_id": "r1:tool-1"}),
            ("read_result", {"ref_id": "r1:tool-1", "offset": 5010, "limit": 4}),
            ("read_result", {"ref_id": "r1:tool-2"}),
        ),
        Giver(Result("a file", files=(PDF,))),
    )
    await events_of(session)
    _, read, recalled, bytes_of_it, missing = outputs_of(session)
    first, second, third, *_, last = read.text.splitlines()
    assert first == (
        "application/pdf, 5,011 bytes, no text; the user saves it with `ebb sessions show ID r1:tool-1 > FILE`"
    )
    assert (second, third[:32]) == ("(not text; as hexadecimal numbers)", "25 50 44 46 2d 31 2e 37 0a ff fe")
    assert last == "(bytes 0-1024 of 5,011; continue at offset=1024)"
    assert recalled.text == read.text
    assert bytes_of_it.text == "(not text; as hexadecimal numbers)\n00\n(bytes 5010-5011 of 5,011)"
    assert (missing.status, missing.text) == ("failed", "`r1` has 1 pictures and files: leave `:tool-2` out")
    await session.close()


async def test_so_many_files_that_their_lines_are_long_are_themselves_shown_in_part(home: Home) -> None:
    files = tuple(Attached(f"{number}.bin", "application/octet-stream", bytes([number])) for number in range(100))
    session = await home.session(get(), Giver(Result("", files=files)))
    await events_of(session)
    (output,) = outputs_of(session)
    assert output.text.startswith('[Tool result stored — 8,681 bytes, 100 lines from "mcp__files__get".\n[Attached "0')
    assert len(output.text) < 2500
    assert (await home.archive().read("r1")).count(b"\n") == 99
    assert await home.archive().read("r1:tool-100") == bytes([99])
    await session.close()


async def test_files_that_cannot_be_kept_are_named_and_the_step_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("full", "the disk is full")

    monkeypatch.setattr(home.blobs, "put", full)
    session = await home.session(get(), Giver(Result("a file", files=(PDF,))))
    events = await events_of(session)
    assert outputs_of(session) == [
        ToolOutput("call-1-1", 'a file\n[Attached "report.pdf" — application/pdf, 5,011 bytes; it could not be kept]')
    ]
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        "what came with the output of `mcp__files__get` could not be kept: the disk is full"
    ]
    await session.close()
