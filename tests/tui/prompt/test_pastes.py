import base64
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.events import Paste

from ebbtide.agent.messages import Image
from ebbtide.agent.prompt.mentions import pasted_note
from ebbtide.tui.prompt.pastes import Pastes, read_dropped_image
from ebbtide.tui.terminal.clipboard_image import NoClipboardImageError, read_clipboard_image, reader_commands
from tests.kit.app_pilot import Terminal, terminal
from tests.kit.fake_sessions import FakeSession
from tests.kit.files import write_program

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LONG = "".join(f"line {number}\n" for number in range(12_345))


def test_a_long_text_folds_and_goes_with_the_message() -> None:
    pastes = Pastes()
    assert pastes.collapse("short\ntext") == "short\ntext"
    name = pastes.collapse(LONG)
    assert name == "[pasted 12,345 lines #1]"
    assert pastes.collapse("x" * 5_000) == "[pasted 5,000 characters #2]"
    message = f"look at {name} and {name}"
    assert pastes.placeholder_ranges(message) == ((8, 32), (37, 61))
    assert pastes.attachments(message) == (pasted_note(name, LONG),)
    assert pastes.expand(f"a {name}") == f"a {LONG}"
    assert pastes.placeholder_ranges("[pasted 9 lines #9]") == ()


def test_what_was_edited_unfolded_folds_again_where_it_is_whole() -> None:
    pastes = Pastes()
    name, other, image = pastes.collapse(LONG), pastes.collapse("x" * 5_000), pastes.add_image(PNG)
    message = f"see {image}, {name} and {other}"
    whole = pastes.expand(message)
    assert whole == f"see {image}, {LONG} and {'x' * 5_000}"
    assert pastes.collapse_unchanged(whole, message) == message
    assert pastes.collapse_unchanged(whole.replace("xxx", "y", 1).replace(" and", "and"), message) == (
        f"see {image}, {name}and y{'x' * 4_997}"
    )
    assert pastes.collapse_unchanged(LONG.rstrip("\n"), name) == name
    assert pastes.collapse_unchanged("", message) == ""
    twice = f"{name}{name}"
    assert pastes.collapse_unchanged(f"{LONG}- {LONG}{LONG}", twice).startswith(f"{name}- {name}line 0\n")
    assert pastes.collapse_unchanged("long " * 60_000, "long").startswith("[pasted 300,000 characters #")


def test_an_edited_message_that_is_too_long_keeps_its_placeholders() -> None:
    pastes = Pastes()
    name, image = pastes.collapse(LONG), pastes.add_image(PNG)
    long = "long " * 60_000
    folded = pastes.collapse_unchanged(f"see {image}{long}{LONG}", f"see {image}{name}")
    assert folded == f"see {image}[pasted 300,000 characters #2]{name}"
    assert pastes.attachments(folded) == (
        Image("image/png", base64.b64encode(PNG).decode()),
        pasted_note("[pasted 300,000 characters #2]", long),
        pasted_note(name, LONG),
    )
    assert pastes.collapse_unchanged(long, "").startswith("[pasted 300,000 characters #")


def test_a_picture_says_its_size_and_what_is_none_is_refused() -> None:
    pastes = Pastes()
    name = pastes.add_image(PNG)
    assert name == "[image #1 1×1]"
    assert pastes.attachments(name) == (Image("image/png", base64.b64encode(PNG).decode()),)
    with pytest.raises(ValueError, match="unsupported image type"):
        pastes.add_image(b"text")


@pytest.mark.parametrize("written", ["{}", "'{}'", "file://{}", "{} "])
def test_the_path_of_a_picture_brings_it(tmp_path: Path, written: str) -> None:
    file = tmp_path / "a b.png"
    file.write_bytes(PNG)
    assert read_dropped_image(written.format(file), {}) == PNG
    assert read_dropped_image(str(file).replace(" ", "\\ "), {}) == PNG
    assert read_dropped_image("~/a b.png", {"HOME": str(tmp_path)}) == PNG


def test_other_texts_bring_no_picture(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    for text in (str(tmp_path / "a.txt"), str(tmp_path), "a.png", "it's", "/\0", "x\ny", "/" + "x" * 3000):
        assert read_dropped_image(text, {}) is None


async def paste(t: Terminal, text: str) -> None:
    t.prompt.post_message(Paste(text))
    await t.pilot.pause()


async def test_a_paste_is_one_unit_of_the_prompt() -> None:
    session = FakeSession()
    async with terminal(session) as t:
        await t.pilot.press(*"see ")
        await paste(t, LONG)
        assert t.prompt.text == "see [pasted 12,345 lines #1]"
        await t.pilot.press("left", "left")
        assert t.prompt.cursor_location == (0, 3)
        await t.pilot.press("right", "right", "backspace")
        assert t.prompt.text == "see "
        await paste(t, LONG)
        t.prompt.move_cursor((0, 10))
        await t.press("!", "enter")
        assert session.said == ["see [pasted 12,345 lines #2]!"]
        assert session.beside == [pasted_note("[pasted 12,345 lines #2]", LONG)]


async def test_a_paste_unfolds_in_the_prompt() -> None:
    async with terminal(FakeSession()) as t:
        text = "a\n" * 30
        await paste(t, text)
        assert t.prompt.text == "[pasted 30 lines #1]"
        await t.pilot.press("ctrl+o")
        assert t.prompt.text == text


async def test_a_megabyte_is_pasted_at_once_where_it_is_narrow() -> None:
    async with terminal(FakeSession(), size=(10, 6)) as t:
        await paste(t, "x" * 1_000_000)
        assert t.prompt.text == "[pasted 1,000,000 characters #1]"


async def test_ctrl_v_brings_the_picture_of_the_clipboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clip.png").write_bytes(PNG)
    write_program(tmp_path / "bin" / "xclip", f"cat {tmp_path}/clip.png")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    session = FakeSession()
    async with terminal(session) as t:
        await t.press("ctrl+v", until=lambda: t.prompt.text == "[image #1 1×1] ")
        await t.press("enter")
        assert (session.said, len(session.beside)) == (["[image #1 1×1]"], 1)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("exit 1", "no image in the clipboard"),
        ("echo text", "no image in the clipboard"),
        ("head -c 9000000 /dev/zero", "larger than 3.9 MB"),
    ],
)
async def test_why_there_is_no_picture(tmp_path: Path, body: str, why: str) -> None:
    write_program(tmp_path / "bin" / "wl-paste", body)
    environment = {"PATH": f"{tmp_path}/bin", "WAYLAND_DISPLAY": "w"}
    with pytest.raises(NoClipboardImageError, match=why):
        await read_clipboard_image(environment)


def test_programs_that_read_the_clipboard_are_sought_where_they_can_be(tmp_path: Path) -> None:
    names: Sequence[str] = ("wl-paste", "xclip", "pngpaste", "osascript")
    for name in names:
        write_program(tmp_path / "bin" / name, "exit 0")
    path = str(tmp_path / "bin")
    found = reader_commands({"PATH": path, "DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, "darwin")
    assert [Path(command[0]).name for command in found] == list(names)
    assert reader_commands({"PATH": path}, "linux") == ()


async def test_a_long_text_that_is_pasted_over_the_transcript_folds_too() -> None:
    async with terminal(FakeSession()) as t:
        t.transcript.focus()
        await t.pilot.pause()
        t.app.post_message(Paste(LONG))
        await t.until(lambda: t.prompt.text == "[pasted 12,345 lines #1]")
